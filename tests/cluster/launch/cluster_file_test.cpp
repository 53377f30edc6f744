// Cluster files: a good one passes, and each planted fault is told with its line and key.
#include "cluster/launch/cluster_check.h"
#include "cluster/launch/cluster_key_table.h"
#include "cluster/launch/rank_placement.h"
#include "messages/error_reasons.h"
#include "cluster/link/certificates.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::launch;

namespace {

/// Four cores, 1 GiB, eth0 with the default route, data0 without; namespaces a and b with veth0 each; port 7001 is taken.
HostView test_host() {
  HostView host;
  host.cores = {0, 1, 2, 3};
  host.memory_bytes = 1 << 30;
  host.interfaces = [](const std::string& name) -> Result<std::vector<NetworkInterface>> {
    if (name.empty())
      return std::vector<NetworkInterface>{{"lo", {"127.0.0.1"}, false}, {"eth0", {"10.0.0.2"}, true}, {"data0", {"10.1.0.2"}, false}};
    if (name == "a" || name == "b") return std::vector<NetworkInterface>{{"veth0", {"10.2.0.2"}, false}};
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "there is no network namespace " + name);
  };
  host.can_listen = [](const std::string& address, std::uint16_t port) -> Status {
    if (address == "10.9.0.1") return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "cannot assign address");
    if (port == 7001) return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "address in use");
    return ok_status();
  };
  return host;
}

struct Folder {
  std::filesystem::path path = test::scratch_folder();
  Folder() {
    test::TinyModelOptions model;
    model.layers = 4;
    test::write_tiny_model(path / "models", model);
    std::ofstream(path / "models/text.gguf") << "no model";
  }
  std::string file() const { return (path / "c.toml").string(); }
};

const std::string kGood = R"([cluster]
name = "pair"

[serve]
port = 8080
kv-memory = "8MiB"

[replica]
model = "models/tiny.gguf"
tensor_parallel = 2
codec = "int8"

[data_plane]
interface = "data0"

[control]
port = 7000

[[node]]
name = "front"
roles = ["gateway"]

[[node]]
name = "left"
roles = ["mixed"]
cores = [0, 1]

[[node]]
name = "right"
roles = ["mixed"]
)";

/// The good text with one place replaced.
std::string with(const std::string& what, const std::string& instead, std::string text = kGood) {
  const auto at = text.find(what);
  REQUIRE(at != text.npos);
  return text.replace(at, what.size(), instead);
}

CheckedCluster checked(const std::string& text, const Folder& folder, const HostView& host = test_host()) {
  Faults faults;
  const ClusterFile file = parse_cluster_text(text, folder.file(), faults);
  CheckedCluster out = check_cluster(file, file.options, host);
  out.faults.insert(out.faults.begin(), faults.begin(), faults.end());
  return out;
}

}  // namespace

TEST_CASE("a good file becomes a plan") {
  const Folder folder;
  const auto good = checked(kGood, folder);
  for (const std::string& fault : good.faults) UNSCOPED_INFO(fault);
  REQUIRE(good.faults.empty());
  const ClusterPlan& plan = good.plan;
  CHECK(plan.name == "pair");
  CHECK(plan.shape == base::ParallelShape{2, 1});
  CHECK(plan.codec == "int8");
  CHECK(plan.gateway_node == "front");
  CHECK(plan.control_port == 7000);
  CHECK(plan.digest != Hash128{});
  REQUIRE(plan.ranks.size() == 2);
  CHECK(plan.ranks[0].node == "left");
  CHECK(plan.ranks[0].cores == std::vector<std::uint16_t>{0, 1});
  CHECK(plan.ranks[1].node == "right");
  CHECK(plan.ranks[1].cores == std::vector<std::uint16_t>{2, 3});  // those that nobody names
  CHECK(plan.ranks[1].interface == "data0");
  REQUIRE(good.needs.size() == 2);
  CHECK(good.needs[0].weight_bytes > 0);
  CHECK(good.notes.empty());
  const auto text = cluster_summary(good, Options{});
  for (const char* word : {"pair", "front", "left", "right", "0-1", "2-3", "data0"}) CHECK(text.find(word) != text.npos);
}

TEST_CASE("what the file says reaches the options, with paths as seen from here") {
  const Folder folder;
  Faults faults;
  const auto file =
      parse_cluster_text(with("port = 8080", "port = 0\napi-key-file = \"keys.txt\"\ncache-dir = \"none\""), folder.file(), faults);
  CHECK(faults.empty());
  CHECK(file.options.model == (folder.path / "models/tiny.gguf").string());
  CHECK(file.options.api_key_file == (folder.path / "keys.txt").string());
  CHECK(file.options.cache_dir == "none");
  CHECK(file.options.port == 0);
  CHECK(file.options.tensor_parallel == 2);
  CHECK(file.options.sources.at("codec") == OptionSource::kFile);
}

TEST_CASE("planted faults are told with line and key") {
  struct Planted {
    std::string text, place, words;
    std::size_t faults = 1;
  };
  const std::vector<Planted> all = {
      {with("[cluster]", "[clutser]"), ":1: clutser", "did you mean [cluster]"},
      {with("codec =", "codek ="), ":11: replica.codek", "did you mean codec"},
      {with("codec = \"int8\"", "codec = \"int5\""), ":11: replica.codec", "int8"},
      {with("tensor_parallel = 2", "tensor_parallel = 0"), ":10: replica.tensor_parallel", "1 to 64"},
      {with("tensor_parallel = 2", "tensor_parallel = [2]"), ":10: replica.tensor_parallel", "not a list"},
      {with("tensor_parallel = 2", "tensor_parallel = 2\npipeline_parallel = 64"), ":11: replica.pipeline_parallel", ""},
      {with("tensor_parallel = 2", "pipeline_parallel = \"two\""), ":10: replica.pipeline_parallel", "1 to 64"},
      {with("port = 8080", "threads = 500"), ":5: serve.threads", "500 a rank are too many: rank 0 has 2 cores (0-1)"},
      {with("port = 8080", "threads = 3"), ":5: serve.threads", "rank 0 has 2 cores"},
      {with("cores = [0, 1]", "cores = [0]", with("port = 8080", "threads = 2")), ":5: serve.threads", "rank 0 has 1 core (0)"},
      {with("port = 8080", "prot = 8080"), ":5: serve.prot", "did you mean port"},
      {with("port = 8080", "codec = \"int8\""), ":5: serve.codec", "[replica]"},
      {with("port = 8080", "port = 7001"), ":5: serve.port", "in use"},
      {with("port = 7000", "port = 7001"), ":17: control.port", "in use"},
      {with("port = 7000", "port = 8080"), ":17: control.port", "serve.port"},
      {with("port = 7000", "port = 65536"), ":17: control.port", "0 to 65535"},
      {with("port = 7000", "heartbeat_ms = 500"), ":17: control.heartbeat_ms", "at least 3"},
      {with("port = 7000", "address = \"localhost\""), ":17: control.address", "IP address"},
      {with("port = 7000", "address = \"10.9.0.1\""), ":17: control.address", "it has 127.0.0.1, 10.0.0.2, 10.1.0.2"},
      {with("port = 7000", "address = \"0.0.0.0\""), ":17: control.address", "every address"},
      {with("port = 7000", "tls_ca = \"ca.pem\""), "control.tls_cert", "is missing", 2},
      {with("port = 7000", "tls_ca = \"ca.pem\"\ntls_cert = \"{node}.pem\"\ntls_key = \"{node}.key\""), ":18: control.tls_cert",
       "front.pem is no file", 7},
      {with("models/tiny.gguf", "models/none.gguf"), ":9: replica.model", "none.gguf"},
      {with("models/tiny.gguf", "models/text.gguf"), ":9: replica.model", "text.gguf"},
      {with("model = \"models/tiny.gguf\"\n", ""), "replica.model", "is missing"},
      {with("kv-memory = \"8MiB\"", "kv-memory = \"2GiB\""), ":6: serve.kv-memory", "1024 MiB"},
      {with("kv-memory = \"8MiB\"", "kv-memory = \"1GiB\""), ":9: replica.model", "GiB"},
      {with("interface = \"data0\"", "interface = \"data1\""), ":14: data_plane.interface", "lo, eth0, data0"},
      {with("interface = \"data0\"", "interface = \"eth0\""), ":14: data_plane.interface", "default route"},
      {with("cores = [0, 1]", "namespace = \"c\""), ":26: node.namespace", "no network namespace c", 2},
      {with("cores = [0, 1]", "namespace = \"a\"\ninterface = \"veth0\""), ":26: node.namespace", "control.address"},
      {with("cores = [0, 1]", "address = \"10.9.9.9\""), ":26: node.address", "other hosts come later"},
      {with("cores = [0, 1]", "cores = [0, 7]"), ":26: node.cores", "there is no core 7"},
      {with("cores = [0, 1]", "cores = [1, 1]"), ":26: node.cores", "twice"},
      {with("cores = [0, 1]", "cores = \"0\""), ":26: node.cores", "list"},
      {with("name = \"right\"\n", "name = \"right\"\ncores = [1]\n"), ":30: node.cores", "belongs to node left"},
      {with("name = \"right\"", "name = \"left\""), ":29: node.name", "line 23"},
      {with("name = \"right\"", "name = \"ri ght\""), ":29: node.name", "letters"},
      {with("name = \"right\"", "name = \"left.1\"", with("tensor_parallel = 2", "tensor_parallel = 2\npipeline_parallel = 2")),
       ":30: node.name", "what rank 1 of node left is called"},
      {with("name = \"right\"\n", ""), ":28: node.name", "is missing"},
      {with("name = \"right\"\n", "name = \"right\"\nranks = [2]\n"), ":30: node.ranks", "ranks 0 to 1"},
      {with("cores = [0, 1]\n", "ranks = [0, 1]\n"), ":28: node.ranks", "no rank is left for node right"},
      {with("cores = [0, 1]\n", "ranks = [0, 0]\n"), ":26: node.ranks", "rank 0 is on node left already"},
      {with("name = \"right\"\n", "name = \"right\"\nranks = [0]\n", with("cores = [0, 1]", "ranks = [0]")), ":30: node.ranks",
       "rank 0 is on node left already", 2},
      {with("[[node]]\nname = \"right\"\nroles = [\"mixed\"]\n", "", with("cores = [0, 1]", "ranks = [1]")), ":26: node.ranks",
       "no node has rank 0"},
      {with("roles = [\"gateway\"]", "roles = [\"mixed\"]"), "node.roles", "no node has the role gateway"},
      {with("roles = [\"gateway\"]", "roles = [\"gatway\"]"), ":21: node.roles", "not known"},
      {with("cores = [0, 1]\n", "ranks = 0\n", with("name = \"right\"\n", "name = \"right\"\nranks = [1]\n")), ":26: node.ranks", "list"},
      {with("roles = [\"mixed\"]\ncores", "roles = [\"gateway\"]\ncores"), ":25: node.roles", "a second gateway"},
      {with("roles = [\"mixed\"]\ncores", "roles = [\"mixde\"]\ncores"), ":25: node.roles", "not known"},
      {with("roles = [\"mixed\"]\ncores", "roles = [\"prefill\"]\ncores"), ":25: node.roles", "comes later"},
      {with("roles = [\"mixed\"]\ncores", "roles = [\"mixed\", \"gateway\"]\ncores"), ":25: node.roles", "one role"},
      {with("cores = [0, 1]", "start = \"ssh\""), ":26: node.start", "comes later"},
      {with("roles = [\"gateway\"]", "roles = [\"gateway\"]\nranks = [0]"), ":22: node.ranks", "compute"},
      {with("[replica]", "[[replica]]"), ":8: replica", "several come later", 3},
      {with("[[node]]\nname = \"front\"", "[gateway]\nname = \"front\""), ":19: gateway", "no such section", 2},
      {with("[data_plane]", "[data_plane"), ":13", "", 3},
  };
  const Folder folder;
  std::size_t found = 0;
  for (const Planted& planted : all) {
    CAPTURE(planted.text);
    const auto faults = checked(planted.text, folder).faults;
    std::string said;
    for (const std::string& fault : faults) {
      CHECK(fault.find('\n') == fault.npos);
      said += fault + "\n";
    }
    CAPTURE(said);
    const bool told = std::any_of(faults.begin(), faults.end(), [&](const std::string& fault) {
      return fault.find(planted.place) != fault.npos && fault.find(planted.words) != fault.npos && fault.find("c.toml") != fault.npos;
    });
    CHECK(told);
    CHECK(faults.size() == planted.faults);
    found += told ? 1 : 0;
  }
  CHECK(found >= 12);
}

TEST_CASE("certificates that would not be let in are told before anything starts") {
  const Folder folder;
  const auto write = [&](const std::string& name, const std::string& text) { std::ofstream(folder.path / name) << text; };
  const auto maker = link::CertificateMaker::make("pair"), foreign = link::CertificateMaker::make("other");
  REQUIRE((maker.ok() && foreign.ok()));
  for (const char* node : {"front", "left", "right"}) {
    const auto made = maker->issue(node);
    write("ca.pem", made->authority);
    write(std::string(node) + ".pem", made->certificate);
    write(std::string(node) + ".key", made->key);
  }
  const std::string text = with("port = 7000", "tls_ca = \"ca.pem\"\ntls_cert = \"{node}.pem\"\ntls_key = \"{node}.key\"");
  CHECK(checked(text, folder).faults.empty());

  const auto one_fault = [&](const std::string& place, const std::string& words) {
    const auto faults = checked(text, folder).faults;
    INFO(words);
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults[0], Catch::Contains(place + ": of node right: ") && Catch::Contains(words));
  };
  const auto other = maker->issue("right"), wrong_name = maker->issue("wrong"), stranger = foreign->issue("right");
  write("right.key", other->key);
  one_fault(":19: control.tls_key", "belongs to another certificate");
  write("right.pem", wrong_name->certificate);
  one_fault(":18: control.tls_cert", "CN = right");
  write("right.key", stranger->key);
  write("right.pem", stranger->certificate);
  one_fault(":18: control.tls_cert", "is not believed");
  write("right.key", "no key");
  one_fault(":19: control.tls_key", "no private key");
}

TEST_CASE("all faults of a file are told at once") {
  const Folder folder;
  auto text = with("codec = \"int8\"", "codec = \"int5\"");
  text.replace(text.find("[0, 1]"), 6, "[0, 9]");
  text.replace(text.find("data0"), 5, "data1");
  CHECK(checked(text, folder).faults.size() == 3);
}

TEST_CASE("ranks and cores are dealt in order") {
  CHECK(deal_cores(std::vector<std::uint16_t>{0, 1, 2, 3, 4}, 2) == std::vector<std::vector<std::uint16_t>>{{0, 1}, {2, 3, 4}});
  CHECK(deal_cores(std::vector<std::uint16_t>{4, 6}, 3) == std::vector<std::vector<std::uint16_t>>{{4}, {6}, {4}});
  CHECK(cores_text(std::vector<std::uint16_t>{0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
  Options options;
  options.tensor_parallel = 2;
  options.pipeline_parallel = 2;
  const auto plan = plan_of_options(options, std::vector<std::uint16_t>{0, 1, 2, 3});
  REQUIRE(plan.ranks.size() == 4);
  for (std::uint16_t rank = 0; rank < 4; ++rank) CHECK(plan.ranks[rank].cores == std::vector<std::uint16_t>{rank});

  const Folder folder;
  const auto two_a_node = checked(with("tensor_parallel = 2", "tensor_parallel = 2\npipeline_parallel = 2"), folder);
  for (const std::string& fault : two_a_node.faults) UNSCOPED_INFO(fault);
  REQUIRE(two_a_node.faults.empty());
  std::vector<std::string> nodes;
  for (const RankPlan& rank : two_a_node.plan.ranks) nodes.push_back(rank.node);
  CHECK(nodes == std::vector<std::string>{"left.0", "left.1", "right.2", "right.3"});
}

TEST_CASE("one node with one rank, and more ranks than cores") {
  const Folder folder;
  HostView host = test_host();
  host.cores = {0};
  const auto crowded = checked(with("cores = [0, 1]\n", ""), folder, host);
  CHECK(crowded.faults.empty());
  REQUIRE(crowded.notes.size() == 1);
  CHECK(crowded.notes[0].find("2 ranks share 1 cores") == 0);
}

TEST_CASE("the rule of the default route can be lifted, and an address names an interface") {
  const Folder folder;
  CHECK(checked(with("interface = \"data0\"", "interface = \"eth0\"\nallow_default_route = true"), folder).faults.empty());
  auto text = with("[data_plane]\ninterface = \"data0\"\n", "");
  text.replace(text.find("cores = [0, 1]"), 14, "address = \"10.1.0.2\"");
  const auto named = checked(text, folder);
  CHECK(named.faults.empty());
  CHECK(named.plan.ranks[0].interface == "data0");
  CHECK(named.plan.ranks[1].interface.empty());
}

TEST_CASE("an address is that of its own node, whose name another's may begin with") {
  const Folder folder;
  auto text = with("[data_plane]\ninterface = \"data0\"\n", "");
  text.replace(text.find("cores = [0, 1]"), 14, "address = \"10.1.0.2\"");
  const auto named = checked(with("name = \"right\"", "name = \"left.b\"", text), folder);
  CHECK(named.faults.empty());
  CHECK(named.plan.ranks[0].interface == "data0");
  CHECK(named.plan.ranks[1].interface.empty());
}

TEST_CASE("options of several ranks: a plan, and faults that name the option") {
  const Folder folder;
  Options options;
  options.model = (folder.path / "models/tiny.gguf").string();
  options.kv_memory = 8 << 20;
  options.tensor_parallel = 2;
  const auto good = check_options(options, test_host());
  CHECK(good.faults.empty());
  CHECK(good.plan.ranks.size() == 2);
  CHECK(good.needs.size() == 2);
  const auto fault = [](const Options& wrong) {
    const auto faults = check_options(wrong, test_host()).faults;
    REQUIRE(faults.size() == 1);
    return faults[0];
  };
  Options wrong = options;
  wrong.tensor_parallel = 64;
  CHECK(fault(wrong).find("--tensor-parallel: 64 are too many") == 0);
  wrong = options;
  wrong.threads = 2;
  CHECK(check_options(wrong, test_host()).faults.empty());
  wrong.threads = 500;
  CHECK(fault(wrong).find("--threads: 500 a rank are too many") == 0);
  wrong = options;
  wrong.pipeline_parallel = 64;
  CHECK(fault(wrong).find("--pipeline-parallel: 64 are too many") == 0);
  wrong = options;
  wrong.kv_memory = std::uint64_t{2} << 30;
  CHECK(fault(wrong).find("--kv-memory: 2048 MiB is more than") == 0);
  wrong = options;
  wrong.data_interface = "eth0";
  CHECK(fault(wrong).find("--data-interface: eth0 also has the default route") == 0);
  wrong = options;
  wrong.model = "/no/such.gguf";
  CHECK(fault(wrong).find("MODEL: ") == 0);
}

TEST_CASE("default routes are found in what the kernel says") {
  const std::string route =
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
      "eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
  const std::string route6 =
      "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 1 0 1 eth2\n"
      "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 3 0 3 wlan0\n"
      "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 1 0 200200 lo\n";
  CHECK(default_routes(route, route6) == std::vector<std::string>{"eth0", "wlan0"});
  CHECK(default_routes("", "").empty());
}

TEST_CASE("this host has cores and a loopback interface, and an unknown namespace is an error") {
  const HostView host = this_host();
  CHECK_FALSE(host.cores.empty());
  const auto interfaces = host.interfaces("");
  REQUIRE(interfaces.ok());
  CHECK(std::any_of(interfaces->begin(), interfaces->end(), [](const NetworkInterface& one) { return one.name == "lo"; }));
  CHECK_FALSE(host.interfaces("there-is-no-such-namespace").ok());
  CHECK(host.can_listen("127.0.0.1", 0).ok());
}

TEST_CASE("every row of the key table: known unit or option, help, in the docs' table") {
  const std::string page = cluster_keys_markdown();
  for (const KeyRow& row : cluster_key_table()) {
    CAPTURE(row.section, row.name);
    if (!row.option.empty())
      CHECK(find_option(row.option) != nullptr);
    else
      CHECK((row.field.index() != 0 && !row.help.empty()));
    CHECK(page.find("`" + std::string(row.name) + "`") != page.npos);
  }
}

TEST_CASE("files that are no cluster files are one short line") {
  for (const std::string& text : {std::string("\xff\xfe"), std::string(100000, '['), "name = \"" + std::string(5000, 'x') + "\"",
                                  std::string("[\"a\\nb\"]\n"), std::string("node = 3")}) {
    Faults faults;
    parse_cluster_text(text, "f.toml", faults);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].size() < 500);
    CHECK(faults[0].find('\n') == std::string::npos);
  }
  Faults faults;
  read_cluster_file("/no/such/file.toml", faults);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].find("cluster file /no/such/file.toml") == 0);
}
