// See rank_placement.h.
#include "cluster/launch/rank_placement.h"

#include <algorithm>
#include <map>
#include <optional>

namespace troupe::cluster::launch {
namespace {

using Cores = std::vector<std::uint16_t>;
constexpr std::uint64_t kFewestHeartbeats = 3;  // within the time of silence

ClusterPlan bare_plan(const Options& options) {
  ClusterPlan plan;
  plan.shape.tensor_ranks = static_cast<std::uint16_t>(options.tensor_parallel);
  plan.shape.stages = static_cast<std::uint16_t>(options.pipeline_parallel);
  plan.ranks.resize(plan.shape.ranks());
  plan.transport = options.transport;
  plan.codec = options.codec;
  for (RankPlan& rank : plan.ranks) rank.interface = options.data_interface;
  return plan;
}

/// Places the nodes of one file. Node of each rank first, then what follows from it.
class Placement {
 public:
  Placement(const ClusterFile& file, const Options& options, std::span<const std::uint16_t> cores, Faults& faults)
      : file_(file), options_(options), cores_(cores), faults_(faults), plan_(bare_plan(options)), node_of_(plan_.ranks.size()) {}

  PlacedRanks place() {
    place_control();
    const bool has_gateway = check_nodes();
    check_cores();
    if (has_gateway && shape_is_known()) {  // else it is not known who has which ranks, and why was told already
      take_named_ranks();
      deal_other_ranks();
      place_cores();
      fill_ranks();
    }
    return {std::move(plan_), std::move(node_of_)};
  }

 private:
  void fault(const std::string& place, const std::string& what) { faults_.push_back(place + ": " + what); }

  bool shape_is_known() const {
    const auto known = [&](std::string_view key, std::string_view option) {
      return !file_.lines.contains(key) || options_.sources.contains(option);
    };
    return known("replica.tensor_parallel", "tensor-parallel") && known("replica.pipeline_parallel", "pipeline-parallel");
  }

  void place_control() {
    plan_.name = file_.name;
    plan_.digest = file_.digest;
    plan_.control_host = file_.control_address;
    plan_.control_port = static_cast<std::uint16_t>(file_.control_port);
    plan_.heartbeat = std::chrono::milliseconds(file_.heartbeat_ms);
    plan_.silence = std::chrono::milliseconds(file_.timeout_ms);
    if (file_.timeout_ms < kFewestHeartbeats * file_.heartbeat_ms)
      fault(file_.place(file_.lines.contains("control.timeout_ms") ? "control.timeout_ms" : "control.heartbeat_ms"),
            "timeout_ms (" + std::to_string(file_.timeout_ms) + ") must be at least " + std::to_string(kFewestHeartbeats) +
                " times heartbeat_ms (" + std::to_string(file_.heartbeat_ms) + ")");
    const std::string* parts[] = {&file_.tls_ca, &file_.tls_cert, &file_.tls_key};
    const char* keys[] = {"control.tls_ca", "control.tls_cert", "control.tls_key"};
    const bool any = std::any_of(std::begin(parts), std::end(parts), [](const std::string* part) { return !part->empty(); });
    for (std::size_t i = 0; i < std::size(parts); ++i)
      if (any && parts[i]->empty()) fault(file_.place(keys[i]), "is missing: give all of tls_ca, tls_cert and tls_key, or none");
  }

  /// Whether one of them is the gateway.
  bool check_nodes() {
    const ClusterNode* gateway = nullptr;
    std::map<std::string, const ClusterNode*> names;
    for (const ClusterNode& node : file_.nodes) {
      if (const auto [first, fresh] = names.try_emplace(node.name, &node); !node.name.empty() && !fresh)
        fault(file_.place(node, "node.name"),
              "'" + node.name + "' is the name of another node, too (line " + std::to_string(first->second->line) + ")");
      if (node.roles.size() > 1)
        fault(file_.place(node, "node.roles"), "one role a node: the gateway's process computes nothing, its ranks are other nodes");
      if (!node.is_gateway()) continue;
      if (gateway != nullptr)
        fault(file_.place(node, "node.roles"), "a second gateway (the first is " + gateway->name + "); several come later");
      gateway = &node;
      for (const char* key : {"ranks", "namespace", "interface"})
        if (node.lines.contains(key))
          fault(file_.place(node, "node." + std::string(key)), "is for nodes that compute: the gateway node is this process as it is");
    }
    if (gateway == nullptr) {
      if (unread("roles", &ClusterNode::roles)) return false;
      fault(file_.path + (file_.nodes.empty() ? "" : ":" + std::to_string(file_.nodes.front().line)) + ": node.roles",
            "no node has the role gateway; one needs roles = [\"gateway\"]: the launching process");
      return false;
    }
    plan_.gateway_node = gateway->name;
    for (const std::uint64_t core : gateway->cores) plan_.gateway_cores.push_back(static_cast<std::uint16_t>(core));
    return true;
  }

  /// Whether a node has that key with a fault, told already, so that what is missing may be there.
  template <class List>
  bool unread(std::string_view key, List ClusterNode::*list) const {
    return std::any_of(file_.nodes.begin(), file_.nodes.end(),
                       [&](const ClusterNode& node) { return node.lines.contains(key) && (node.*list).empty(); });
  }

  void take_named_ranks() {
    for (const ClusterNode& node : file_.nodes) {
      for (const std::uint64_t rank : node.ranks) {
        const std::string place = file_.place(node, "node.ranks");
        if (node.is_gateway()) continue;  // told already
        if (rank >= node_of_.size())
          fault(place, "there is no rank " + std::to_string(rank) + ": tensor_parallel " + std::to_string(plan_.shape.tensor_ranks) +
                           " * pipeline_parallel " + std::to_string(plan_.shape.stages) + " makes ranks 0 to " +
                           std::to_string(node_of_.size() - 1));
        else if (node_of_[rank] != nullptr)
          fault(place, "rank " + std::to_string(rank) + " is on node " + node_of_[rank]->name + " already");
        else
          node_of_[rank] = &node;
      }
    }
  }

  void deal_other_ranks() {
    std::vector<const ClusterNode*> open;
    for (const ClusterNode& node : file_.nodes)
      if (!node.is_gateway() && node.ranks.empty() && !node.lines.contains("ranks")) open.push_back(&node);
    std::vector<std::size_t> left;
    for (std::size_t rank = 0; rank < node_of_.size(); ++rank)
      if (node_of_[rank] == nullptr) left.push_back(rank);
    if (open.empty() && !left.empty() && !unread("ranks", &ClusterNode::ranks)) {
      std::string text;
      for (const std::size_t rank : left) text += (text.empty() ? "" : ", ") + std::to_string(rank);
      const auto& any = file_.nodes.empty() ? ClusterNode{} : file_.nodes.back();
      fault(file_.place(any, "node.ranks"), "no node has rank " + text + "; add it to a node, or a node without ranks");
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::size_t begin = i * left.size() / open.size(), end = (i + 1) * left.size() / open.size();
      for (std::size_t k = begin; k < end; ++k) node_of_[left[k]] = open[i];
      if (begin == end)
        fault(file_.place(*open[i], "node.ranks"), "no rank is left for node " + open[i]->name + ": there are " +
                                                       std::to_string(node_of_.size()) + " (tensor_parallel * pipeline_parallel)");
    }
  }

  void check_cores() {
    std::map<std::uint64_t, const ClusterNode*> owners;
    for (const ClusterNode& node : file_.nodes) {
      for (const std::uint64_t core : node.cores) {
        const std::string place = file_.place(node, "node.cores");
        if (std::find(cores_.begin(), cores_.end(), core) == cores_.end())
          fault(place, "there is no core " + std::to_string(core) + ": this process may use " + cores_text(cores_));
        if (node.is_gateway()) continue;  // it may share: it computes nothing
        const auto [owner, fresh] = owners.try_emplace(core, &node);
        if (!fresh)
          fault(place,
                "core " + std::to_string(core) + (owner->second == &node ? " is there twice" : " belongs to node " + owner->second->name));
      }
    }
  }

  void place_cores() {
    Cores open;
    for (const std::uint16_t core : cores_) {
      const auto named = [&](const ClusterNode& node) {
        return !node.is_gateway() && std::find(node.cores.begin(), node.cores.end(), core) != node.cores.end();
      };
      if (std::none_of(file_.nodes.begin(), file_.nodes.end(), named)) open.push_back(core);
    }
    std::vector<std::size_t> without;
    for (std::size_t rank = 0; rank < node_of_.size(); ++rank)
      if (node_of_[rank] != nullptr && node_of_[rank]->cores.empty()) without.push_back(rank);
    const auto shares = deal_cores(open.empty() ? cores_ : open, without.size());
    for (std::size_t i = 0; i < without.size(); ++i) plan_.ranks[without[i]].cores = shares[i];
    for (const ClusterNode& node : file_.nodes) {
      if (node.cores.empty()) continue;
      const auto ranks = ranks_of(node);
      const auto own = deal_cores(Cores(node.cores.begin(), node.cores.end()), ranks.size());
      for (std::size_t i = 0; i < ranks.size(); ++i) plan_.ranks[ranks[i]].cores = own[i];
    }
  }

  void fill_ranks() {
    plan_.gateway_certificate = certificate(plan_.gateway_node);
    for (std::size_t rank = 0; rank < node_of_.size(); ++rank) {
      if (node_of_[rank] == nullptr) continue;
      const ClusterNode& node = *node_of_[rank];
      RankPlan& out = plan_.ranks[rank];
      out.node = ranks_of(node).size() == 1 ? node.name : node.name + "." + std::to_string(rank);
      for (const ClusterNode& other : file_.nodes)
        if (&other != &node && other.name == out.node && out.node != node.name)
          fault(file_.place(other, "node.name"), "'" + out.node + "' is what rank " + std::to_string(rank) + " of node " + node.name +
                                                     " is called, too (line " + std::to_string(node.line) + ")");
      out.network_namespace = node.network_namespace;
      if (!node.interface.empty()) out.interface = node.interface;
      out.certificate = certificate(out.node);
    }
  }

  std::vector<std::size_t> ranks_of(const ClusterNode& node) const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < node_of_.size(); ++rank)
      if (node_of_[rank] == &node) ranks.push_back(rank);
    return ranks;
  }

  CertificateFiles certificate(const std::string& node) const {
    const auto named = [&](std::string path) {
      constexpr std::string_view kName = "{node}";
      for (auto at = path.find(kName); at != path.npos; at = path.find(kName, at + node.size())) path.replace(at, kName.size(), node);
      return path;
    };
    return {file_.tls_ca, named(file_.tls_cert), named(file_.tls_key)};
  }

  const ClusterFile& file_;
  const Options& options_;
  const std::span<const std::uint16_t> cores_;
  Faults& faults_;
  ClusterPlan plan_;
  std::vector<const ClusterNode*> node_of_;  // by rank
};

}  // namespace

std::string cores_text(std::span<const std::uint16_t> cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]);
    if (end > i + 1) text += "-" + std::to_string(cores[end - 1]);
    i = end;
  }
  return text;
}

std::vector<Cores> deal_cores(std::span<const std::uint16_t> cores, std::size_t count) {
  std::vector<Cores> shares(count);
  for (std::size_t i = 0; i < count && !cores.empty(); ++i) {
    if (cores.size() < count) {
      shares[i] = {cores[i % cores.size()]};
      continue;
    }
    shares[i].assign(cores.begin() + static_cast<std::ptrdiff_t>(i * cores.size() / count),
                     cores.begin() + static_cast<std::ptrdiff_t>((i + 1) * cores.size() / count));
  }
  return shares;
}

ClusterPlan plan_of_options(const Options& options, std::span<const std::uint16_t> cores) {
  ClusterPlan plan = bare_plan(options);
  const auto shares = deal_cores(cores, plan.ranks.size());
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    plan.ranks[rank].node = "rank" + std::to_string(rank);
    plan.ranks[rank].cores = shares[rank];
  }
  return plan;
}

PlacedRanks place_ranks(const ClusterFile& file, const Options& options, std::span<const std::uint16_t> cores, Faults& faults) {
  return Placement(file, options, cores, faults).place();
}

}  // namespace troupe::cluster::launch
