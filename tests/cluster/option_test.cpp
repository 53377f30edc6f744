// The option table and its sources: precedence, ranges, errors that name the place.
#include "cluster/option_sources.h"
#include "messages/error_reasons.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

using namespace troupe;
using namespace troupe::cluster;

namespace {

Result<ParsedOptions> parse(CommandBits command, const std::vector<std::string>& arguments,
                            std::map<std::string, std::string> environment = {}) {
  return parse_options(command, arguments, [&](const std::string& name) -> const char* {
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string fault(CommandBits command, const std::vector<std::string>& arguments, std::map<std::string, std::string> environment = {}) {
  auto parsed = parse(command, arguments, std::move(environment));
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().reason != ErrorReason::kUnclassified);
  CHECK(parsed.error().client_text.find('\n') == std::string::npos);
  return parsed.error().client_text;
}

struct TemporaryFile {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("troupe_options_" + std::to_string(::getpid()) + ".toml");
  explicit TemporaryFile(const std::string& text) { std::ofstream(path) << text; }
  ~TemporaryFile() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("defaults are those of the struct") {
  auto parsed = parse(kServe, {"m.gguf"});
  REQUIRE(parsed.ok());
  CHECK(parsed->options.model == "m.gguf");
  CHECK(parsed->options.port == Options{}.port);
  CHECK(parsed->help.empty());
}

TEST_CASE("every row: unique name, help, valid default, one environment name") {
  std::set<std::string> names;
  for (const OptionRow& row : option_table()) {
    INFO(row.name);
    CHECK(names.insert(std::string(row.name)).second);
    CHECK(names.insert(environment_name(row)).second);
    CHECK_FALSE(row.help.empty());
    CHECK(find_option(row.name) == &row);
    Options options;
    const std::string value = option_text(options, row);
    if (!std::holds_alternative<std::vector<std::string> Options::*>(row.field)) {
      CHECK(set_option(options, row, value, "default").ok());
      CHECK(option_text(options, row) == value);
    }
    if (!row.hidden) CHECK(options_markdown().find(environment_name(row)) != std::string::npos);
  }
}

TEST_CASE("command line over environment over file over default") {
  TemporaryFile file("port = 1\nhost = \"a\"\nmax-queue = 7\nallowed-origin = [\"https://x\", \"https://y\"]\n");
  std::vector<std::string> arguments = {"m.gguf", "--config", file.path.string(), "--port", "3"};
  auto parsed = parse(kServe, arguments, {{"TROUPE_PORT", "2"}, {"TROUPE_HOST", "b"}});
  REQUIRE(parsed.ok());
  CHECK(parsed->options.port == 3);
  CHECK(parsed->options.hosts == std::vector<std::string>{"b"});
  CHECK(parsed->options.max_queue == 7);
  CHECK(parsed->options.allowed_origins == std::vector<std::string>{"https://x", "https://y"});
  CHECK(parsed->options.token_budget == Options{}.token_budget);

  arguments.insert(arguments.end(), {"--allowed-origin", "https://z", "--allowed-origin", "https://w"});
  parsed = parse(kServe, arguments);
  REQUIRE(parsed.ok());
  CHECK(parsed->options.allowed_origins == std::vector<std::string>{"https://z", "https://w"});
}

TEST_CASE("the model may stand in the file or the environment") {
  TemporaryFile file("model = \"f.gguf\"\n");
  CHECK(parse(kServe, {"--config", file.path.string()})->options.model == "f.gguf");
  CHECK(parse(kServe, {}, {{"TROUPE_CONFIG", file.path.string()}})->options.model == "f.gguf");
  CHECK(parse(kServe, {}, {{"TROUPE_MODEL", "e.gguf"}})->options.model == "e.gguf");
}

TEST_CASE("numbers, bytes and choices are checked") {
  CHECK(parse(kServe, {"m", "--kv-memory", "2GiB"})->options.kv_memory == 2ULL << 30);
  CHECK(parse(kServe, {"m", "--kv-memory=12M"})->options.kv_memory == 12ULL << 20);
  CHECK(parse(kServe, {"m", "--kv", "fp32"})->options.kv_format == "fp32");
  CHECK(parse(kServe, {"m", "--no-pin"})->options.no_pin);
  CHECK(fault(kServe, {"m", "--port", "65536"}).find("--port: '65536'") == 0);
  CHECK(fault(kServe, {"m", "--port", "65536"}).find("0 to 65535") != std::string::npos);
  CHECK(fault(kServe, {"m", "--port", "80x"}).find("--port") == 0);
  CHECK(fault(kServe, {"m", "--port", "-1"}).find("-1") != std::string::npos);
  CHECK(fault(kServe, {"m", "--kv-memory", "99999999999TiB"}).find("--kv-memory") == 0);
  CHECK(fault(kServe, {"m", "--kv-format", "int4"}).find("int8, fp16, fp32") != std::string::npos);
  CHECK(fault(kServe, {"m"}, {{"TROUPE_MAX_QUEUE", "many"}}).find("TROUPE_MAX_QUEUE: 'many'") == 0);
  CHECK(fault(kChat, {"--temperature", "nan"}).find("--temperature") == 0);
  CHECK(fault(kChat, {"--temperature", "2.5"}).find("0 to 2") != std::string::npos);
}

TEST_CASE("an origin that no browser sends is an error") {
  for (const char* good : {"https://chat.example.org", "http://localhost:3000", "http://[::1]:8080", "app://obsidian.md", "*"})
    CHECK(parse(kServe, {"m", "--allowed-origin", good})->options.allowed_origins == std::vector<std::string>{good});
  for (const char* bad : {"chat.example.org", "https://chat.example.org/", "https://", "://x", "https://*.example.org", "5", "http://a b"})
    CHECK(fault(kServe, {"m", "--allowed-origin", bad}).find("--allowed-origin: '") == 0);
}

TEST_CASE("unknown options and keys name themselves") {
  CHECK(fault(kServe, {"m", "--prot", "1"}).find("--prot") != std::string::npos);
  CHECK(fault(kServe, {"m", "second"}).find("second") != std::string::npos);
  CHECK(fault(kServe, {"m", "--port"}).find("--port") != std::string::npos);
  CHECK(fault(kServe, {"m", "--url", "http://x"}).find("--url") != std::string::npos);  // a chat option
  TemporaryFile file("\n# a comment\nport = 1\nprot = 2\n");
  const std::string text = fault(kServe, {"m", "--config", file.path.string()});
  CHECK(text.find(file.path.string() + ":4: prot") == 0);
  CHECK(fault(kServe, {"m", "--config", "/no/such/file"}).find("/no/such/file") != std::string::npos);
}

TEST_CASE("faults of the config file name line and key") {
  auto text_of = [](const std::string& text) {
    Options options;
    auto status = apply_config_text(options, text, "f.toml");
    REQUIRE_FALSE(status.ok());
    return status.error().client_text;
  };
  CHECK(text_of("port = 1\nport = 2\n").find("f.toml:2") == 0);
  CHECK(text_of("port = \n").find("f.toml:1") == 0);
  CHECK(text_of("\nport = 70000\n").find("f.toml:2: port: '70000'") == 0);
  CHECK(text_of("port = [1, 2]\n").find("f.toml:1: port") == 0);
  CHECK(text_of("port = 1.5\n").find("f.toml:1: port") == 0);
  CHECK(text_of("[serve]\nport = 1\n").find("f.toml:1: serve") == 0);
  CHECK(text_of("host = 1979-05-27\n").find("f.toml:1: host") == 0);
  CHECK(text_of("url = \"http://x\"\n").find("f.toml:1: url") == 0);
}

TEST_CASE("a config file that never ends is refused") {
  Options options;
  const auto status = apply_config_file(options, "/dev/zero");
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().client_text.find("more than 1048576 bytes") != std::string::npos);
  CHECK_FALSE(apply_config_file(options, "/").ok());
  CHECK(apply_config_file(options, "/dev/null").ok());
}

TEST_CASE("help lists the command's options and hides those of tests") {
  auto parsed = parse(kServe, {"--help"});
  REQUIRE(parsed.ok());
  CHECK(parsed->help.find("--stall-budget-ms") != std::string::npos);
  CHECK(parsed->help.find("--fault") == std::string::npos);
  CHECK(parsed->help.find("--url") == std::string::npos);
  CHECK(parse(kChat, {"-h"})->help.find("--url") != std::string::npos);
  CHECK(parse(kServe, {"m", "--fault", "throw:3"})->options.fault == "throw:3");
}
