// See cluster_check.h.
#include "cluster/launch/cluster_check.h"

#include "cluster/launch/cluster_key_table.h"
#include "cluster/launch/rank_placement.h"
#include "cluster/link/certificate_check.h"
#include "messages/error_reasons.h"
#include "runtime/base/small_file.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

namespace troupe::cluster::launch {
namespace {

/// "a.toml:3: replica.codec" of an option, or its own name where there is no file; of a key of the node that has `rank`.
struct Places {
  std::function<std::string(std::string_view name)> option;
  std::function<std::string(std::size_t rank, std::string_view key)> node;
};

std::string gibibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

class Check {
 public:
  Check(CheckedCluster& out, const Options& options, const HostView& host, Places places)
      : out_(out), options_(options), host_(host), places_(std::move(places)) {}

  void model() {
    if (options_.model.empty()) return fault(places_.option("model"), "is missing: the GGUF file to serve");
    const auto facts = read_model_facts(options_.model);
    if (!facts) return fault(places_.option("model"), facts.error().client_text);
    for (const std::string& problem : facts->problems) fault(places_.option("model"), problem);
    if (!facts->config) return;
    auto needs = rank_needs(*facts, options_, host_.memory_bytes);
    if (!needs) return fault_of(needs.error());
    out_.needs = std::move(*needs);
    std::uint64_t weights = 0, kv = options_.host_cache;
    for (const RankNeeds& rank : out_.needs) {
      weights += rank.weight_bytes;
      kv += rank.kv_bytes;
    }
    if (weights + kv > host_.memory_bytes)
      fault(places_.option("model"), "needs about " + gibibytes(weights) + " for weights and " + gibibytes(kv) +
                                         " for keys and values on this host, which has " + gibibytes(host_.memory_bytes) +
                                         "; take a smaller model or set kv-memory");
  }

  /// `threads` is for each rank: one that has no core waits for the others of its team at every step.
  void threads() {
    for (std::size_t rank = 0; rank < out_.plan.ranks.size(); ++rank) {
      const RankPlan& plan = out_.plan.ranks[rank];
      if (plan.cores.empty() || options_.threads <= plan.cores.size()) continue;
      return fault(places_.option("threads"), std::to_string(options_.threads) + " a rank are too many: rank " + std::to_string(rank) +
                                                  " has " + std::to_string(plan.cores.size()) +
                                                  (plan.cores.size() == 1 ? " core" : " cores") + " (" + cores_text(plan.cores) +
                                                  "); leave it out for one thread a core");
    }
  }

  void data_plane() {
    for (std::size_t rank = 0; rank < out_.plan.ranks.size(); ++rank) {
      const RankPlan& plan = out_.plan.ranks[rank];
      if (!told_.emplace(plan.network_namespace, plan.interface).second) continue;
      const auto interfaces = host_.interfaces(plan.network_namespace);
      if (!interfaces) {
        fault(places_.node(rank, "namespace"), interfaces.error().client_text);
        continue;
      }
      if (plan.interface.empty()) continue;
      const auto found =
          std::find_if(interfaces->begin(), interfaces->end(), [&](const NetworkInterface& one) { return one.name == plan.interface; });
      std::string names;
      for (const NetworkInterface& one : *interfaces) names += (names.empty() ? "" : ", ") + one.name;
      const std::string where = plan.network_namespace.empty() ? "here" : "in namespace " + plan.network_namespace;
      if (found == interfaces->end())
        fault(places_.node(rank, "interface"), "there is no network interface " + plan.interface + " " + where + "; there is " + names);
      else if (found->default_route && !options_.allow_default_route)
        fault(places_.node(rank, "interface"),
              plan.interface + " also has the default route " + where +
                  ", so others may reach it, and what ranks exchange is neither encrypted nor checked; name an interface of a trusted "
                  "network, or say that this is one: allow_default_route");
    }
  }

  void listen(const std::string& place, const std::string& address, std::uint64_t port) {
    if (const auto status = host_.can_listen(address, static_cast<std::uint16_t>(port)); !status)
      fault(place, "port " + std::to_string(port) + " of " + address + " cannot be listened on: " + status.error().client_text);
  }

  /// False where no port of it needs a look.
  bool control_address(const ClusterFile& file) {
    const std::string place = file.place("control.address");
    if (file.control_address == "0.0.0.0" || file.control_address == "::")
      fault(place, file.control_address + " is every address; name the one of this host that ranks connect to");
    else if (!host_.can_listen(file.control_address, 0))
      fault(place, file.control_address + " is no address of this host" + addresses_of_host());
    else
      return true;
    return false;
  }

  void certificates(const ClusterFile& file) {
    if (file.tls_ca.empty() || file.tls_cert.empty() || file.tls_key.empty()) return;  // told already, or made for this run
    certificate(file, out_.plan.gateway_certificate, out_.plan.gateway_node);
    for (const RankPlan& rank : out_.plan.ranks)
      if (!rank.node.empty()) certificate(file, rank.certificate, rank.node);
  }

  void notes() {
    std::set<std::uint16_t> used;
    for (const RankPlan& rank : out_.plan.ranks) used.insert(rank.cores.begin(), rank.cores.end());
    if (out_.plan.ranks.size() > used.size())
      out_.notes.push_back(std::to_string(out_.plan.ranks.size()) + " ranks share " + std::to_string(used.size()) +
                           " cores: fewer ranks would be faster");
  }

  void fault(const std::string& place, const std::string& what) { out_.faults.push_back(place + ": " + what); }

 private:
  /// An error about an option, whose text begins with its name.
  void fault_of(const Error& error) {
    const std::string name = error.parameter + ": ";
    fault(places_.option(error.parameter), error.client_text.substr(error.client_text.starts_with(name) ? name.size() : 0));
  }

  /// None, and a fault at the first time, where it cannot be read.
  std::optional<std::string> pem(const std::string& place, const std::string& path) {
    auto text = base::read_small_file(path, "");
    if (text) return std::move(*text);
    if (unreadable_.insert(path).second) fault(place, path + " is no file that can be read");
    return std::nullopt;
  }

  void certificate(const ClusterFile& file, const CertificateFiles& files, const std::string& node) {
    const std::string places[] = {file.place("control.tls_ca"), file.place("control.tls_cert"), file.place("control.tls_key")};
    const std::string* paths[] = {&files.authority, &files.certificate, &files.key};
    const auto authority = pem(places[0], files.authority), own = pem(places[1], files.certificate), key = pem(places[2], files.key);
    if (!authority || !own || !key) return;
    if (const auto wrong = link::check_certificate(*authority, *own, *key, node)) {
      const auto which = static_cast<std::size_t>(wrong->file);
      fault(places[which], "of node " + node + ": " + *paths[which] + " " + wrong->what);
    }
  }

  std::string addresses_of_host() const {
    std::string text;
    if (const auto interfaces = host_.interfaces(""))
      for (const NetworkInterface& one : *interfaces)
        for (const std::string& address : one.addresses) text += (text.empty() ? "; it has " : ", ") + address;
    return text;
  }

  CheckedCluster& out_;
  const Options& options_;
  const HostView& host_;
  const Places places_;
  std::set<std::pair<std::string, std::string>> told_;
  std::set<std::string> unreadable_;
};

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

/// Null: none has it.
const NetworkInterface* interface_with(const std::vector<NetworkInterface>& interfaces, const std::string& address) {
  for (const NetworkInterface& one : interfaces)
    if (std::find(one.addresses.begin(), one.addresses.end(), address) != one.addresses.end()) return &one;
  return nullptr;
}

/// What only a file can say about networks.
void check_addresses(const ClusterFile& file, const HostView& host, CheckedCluster& out) {
  for (const ClusterNode& node : file.nodes) {
    if (!node.network_namespace.empty() && is_loopback(file.control_address))
      out.faults.push_back(file.place(node, "node.namespace") + ": " + file.control_address +
                           " is another one in a namespace of its own; set control.address to " +
                           "an address of this host that is reached from there");
    if (node.address.empty()) continue;
    const auto interfaces = host.interfaces(node.network_namespace);
    if (!interfaces) continue;  // told with the data plane
    if (interface_with(*interfaces, node.address) == nullptr)
      out.faults.push_back(file.place(node, "node.address") + ": " + node.address +
                           " is no address of this host; nodes on other hosts come later");
  }
}

/// A node's address names its interface where nothing else does.
void name_interfaces(const HostView& host, PlacedRanks& placed) {
  for (std::size_t rank = 0; rank < placed.nodes.size(); ++rank) {
    const ClusterNode* node = placed.nodes[rank];
    std::string& interface = placed.plan.ranks[rank].interface;
    if (node == nullptr || node->address.empty() || !interface.empty()) continue;
    const auto interfaces = host.interfaces(node->network_namespace);
    const NetworkInterface* found = interfaces ? interface_with(*interfaces, node->address) : nullptr;
    if (found != nullptr) interface = found->name;
  }
}

}  // namespace

CheckedCluster check_cluster(const ClusterFile& file, const Options& options, const HostView& host) {
  CheckedCluster out;
  PlacedRanks placed = place_ranks(file, options, host.cores, out.faults);
  name_interfaces(host, placed);
  out.plan = std::move(placed.plan);
  const auto of_rank = [&](std::size_t rank, std::string_view key) {
    const ClusterNode* node = placed.nodes[rank];
    if (node != nullptr && node->lines.contains(key)) return file.place(*node, "node." + std::string(key));
    return file.place("data_plane." + std::string(key));
  };
  Check check(out, options, host, {[&](std::string_view option) { return file.place(key_of_option(option)); }, of_rank});
  check.model();
  check.threads();
  check_addresses(file, host, out);
  check.data_plane();
  for (const std::string& address : options.hosts) check.listen(file.place("serve.port"), address, options.port);
  if (check.control_address(file)) check.listen(file.place("control.port"), file.control_address, file.control_port);
  if (file.control_port != 0 && file.control_port == options.port)
    check.fault(file.place("control.port"), "is serve.port, too; the two are different ports");
  check.certificates(file);
  check.notes();
  return out;
}

CheckedCluster check_options(const Options& options, const HostView& host) {
  CheckedCluster out;
  out.plan = plan_of_options(options, host.cores);
  const auto option = [](std::string_view name) { return name == "model" ? std::string("MODEL") : std::string("--").append(name); };
  Check check(out, options, host, {option, [](std::size_t, std::string_view) { return std::string("--data-interface"); }});
  check.model();
  check.threads();
  check.data_plane();
  check.notes();
  return out;
}

}  // namespace troupe::cluster::launch
