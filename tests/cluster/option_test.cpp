// The option table and its sources: precedence, ranges, errors that name the place.
#include "cluster/commands.h"
#include "cluster/config_answer.h"
#include "cluster/option_sources.h"
#include "messages/error_reasons.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

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

TEST_CASE("the model may be given as an option, as to other servers") {
  CHECK(parse(kServe, {"-m", "o.gguf", "--port", "1"})->options.model == "o.gguf");
  CHECK(parse(kRun, {"--model", "o.gguf"})->options.model == "o.gguf");
  CHECK(parse(kInspect, {"--model=o.gguf"})->options.model == "o.gguf");
  const auto bench = parse(kBench, {"-m", "o.gguf", "decode", "step"});
  REQUIRE(bench.ok());
  CHECK(bench->options.model == "o.gguf");
  CHECK(bench->options.suites == std::vector<std::string>{"decode", "step"});
  CHECK(fault(kServe, {"a.gguf", "b.gguf"}).find("b.gguf") == 0);
}

TEST_CASE("numbers, bytes and choices are checked") {
  CHECK(parse(kServe, {"m", "--kv-memory", "2GiB"})->options.kv_memory == 2ULL << 30);
  CHECK(parse(kServe, {"m", "--kv-memory=12M"})->options.kv_memory == 12ULL << 20);
  CHECK(parse(kServe, {"m", "--host-cache", "3GiB"})->options.host_cache == 3ULL << 30);
  CHECK(parse(kServe, {"m", "--disk-cache=1TiB"})->options.disk_cache == 1ULL << 40);
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

TEST_CASE("an option or key that does not exist is answered with the nearest one") {
  auto says = [](const std::string& text, std::string_view hint) { return text.find(hint) != std::string::npos; };
  CHECK(fault(kServe, {"m", "--prot", "8080"}).find("--prot: there is no such option; did you mean --port?") == 0);
  CHECK(fault(kServe, {"--prot", "8080", "m"}).find("--prot: ") == 0);  // though 8080 was taken for MODEL
  CHECK(says(fault(kServe, {"m", "--api-key", "k"}), "did you mean --api-key-file?"));
  CHECK_FALSE(says(fault(kServe, {"m", "--api-key=secret"}), "secret"));
  CHECK(says(fault(kServe, {"m", "--kv_memory=1GiB"}), "did you mean --kv-memory?"));
  CHECK(says(fault(kServe, {"m", "--n-gpu-layers", "1"}), "--n-gpu-layers: there is no such option ("));
  CHECK(says(fault(kServe, {"m", "--promt"}), "--promt: there is no such option"));
  CHECK_FALSE(says(fault(kServe, {"m", "--promt"}), "--prompt"));  // an option of another command
  CHECK(says(fault(kServe, {"m", "--" + std::string(100000, 'x')}), "there is no such option"));
  TemporaryFile file("max_queue = 8\n");
  CHECK(says(fault(kServe, {"m", "--config", file.path.string()}), "no such key; did you mean max-queue?"));
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

TEST_CASE("errors that quote a file are one short line") {
  for (const std::string& text :
       {std::string("port = \"a\\nb\"\n"), std::string("\"po\\nrt\" = 1\n"), "port = \"" + std::string(5000, 'x') + "\"\n",
        "\"" + std::string(5000, 'x') + "\" = 1\n", std::string("host = \"a\\u001b[2J\"\nport = \"\\u001b[2J\"\n")}) {
    const TemporaryFile file(text);
    const std::string error = fault(kServe, {"--config", file.path.string()});
    CHECK(error.size() < 700);
    for (const char c : error) CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
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

namespace {

/// A value that the row takes and that is not its default.
std::string other_value(const OptionRow& row) {
  const std::string usual = option_text(Options{}, row);
  for (const std::string_view choice : row.choices)
    if (choice != usual && !choice.empty()) return std::string(choice);
  if (!row.choices.empty()) return usual;  // the only one
  if (std::holds_alternative<bool Options::*>(row.field)) return "true";
  if (row.unit == "origin") return "https://a.example";
  if (std::holds_alternative<std::string Options::*>(row.field)) return "some text";
  if (row.minimum != row.maximum) return std::to_string(static_cast<std::uint64_t>(row.maximum));
  return std::holds_alternative<std::vector<std::string> Options::*>(row.field) ? "some" : "17";
}

CommandBits some_command(const OptionRow& row) {
  for (const CommandBits command : {kServe, kChat, kRun, kBench, kInspect, kLaunch})
    if ((row.commands & command) != 0) return command;
  return kAll;
}

}  // namespace

TEST_CASE("every option can be set on the command line, in the environment and in the file, and tells who set it") {
  for (const OptionRow& row : option_table()) {
    if (row.name == "config") continue;
    const std::string value = other_value(row);
    CAPTURE(row.name, value);
    const CommandBits command = some_command(row);
    const auto check = [&](const Result<ParsedOptions>& parsed, OptionSource source) {
      if (!parsed) FAIL_CHECK(parsed.error().client_text);
      if (!parsed) return;
      CHECK(option_text(parsed->options, row) == value);
      REQUIRE(parsed->options.sources.count(row.name) == 1);
      CHECK(parsed->options.sources.find(row.name)->second == source);
    };
    const bool flag = std::holds_alternative<bool Options::*>(row.field);
    std::vector<std::string> arguments;
    if (row.positional && !row.choices.empty()) arguments.push_back("m.gguf");  // behind the model
    if (!row.positional) arguments.push_back("--" + std::string(row.name));
    if (!flag) arguments.push_back(value);
    check(parse(command, arguments), OptionSource::kCommandLine);
    check(parse(command, {}, {{environment_name(row), value}}), OptionSource::kEnvironment);
    if (row.no_file) continue;
    const TemporaryFile file(std::string(row.name) + " = \"" + value + "\"\n");
    const bool text = std::holds_alternative<std::string Options::*>(row.field) || row.unit == "bytes" || row.unit == "origin" ||
                      std::holds_alternative<std::vector<std::string> Options::*>(row.field);
    if (!text) std::ofstream(file.path) << row.name << " = " << value << "\n";
    check(parse(command, {"--config", file.path.string()}), OptionSource::kFile);
  }
}

TEST_CASE("the answer of /config has each option of serve with its source") {
  const TemporaryFile file("max-queue = 7\n");
  const auto parsed = parse(kServe, {"m.gguf", "--port", "0", "--config", file.path.string()}, {{"TROUPE_HOST", "::1"}});
  REQUIRE(parsed.ok());
  const auto answer = nlohmann::json::parse(config_answer(parsed->options));
  const auto& options = answer.at("options");
  CHECK(options.at("max-queue") == nlohmann::json({{"value", 7}, {"source", "file"}, {"default", 256}}));
  CHECK(options.at("port") == nlohmann::json({{"value", 0}, {"source", "command line"}, {"default", 8080}}));
  CHECK(options.at("host").at("source") == "environment");
  CHECK(options.at("threads") == nlohmann::json({{"value", 0}, {"source", "default"}}));
  CHECK_FALSE(options.contains("fault"));    // of tests
  CHECK_FALSE(options.contains("api-key"));  // not of a server
  for (const OptionRow& row : option_table())
    if (row.name.find("key") != std::string_view::npos && row.unit == "text") CHECK(row.secret);
}

TEST_CASE("launch takes the options of serve, but for its model and its config file") {
  const auto parsed = parse(kLaunch, {"c.toml", "--port", "1", "--check"}, {{"TROUPE_CODEC", "int8"}, {"TROUPE_CONFIG", "/no/such/file"}});
  REQUIRE(parsed.ok());
  CHECK(parsed->options.cluster_file == "c.toml");
  CHECK(parsed->options.check_only);
  CHECK(parsed->options.port == 1);
  CHECK(parsed->options.codec == "int8");
  CHECK(fault(kLaunch, {"c.toml", "--config", "f.toml"}).find("--config: there is no such option") == 0);
  CHECK(fault(kLaunch, {"c.toml", "--prot", "1"}).find("did you mean --port?") != std::string::npos);
  Options to;
  copy_option(to, parsed->options, *find_option("port"));
  CHECK(to.port == 1);
}

TEST_CASE("the usage and the completions know every command") {
  const std::string script = bash_completions();
  for (const CommandRow& row : command_table()) {
    CHECK(script.find(std::string(row.name)) != std::string::npos);
    if (row.options != 0) CHECK(command_name(static_cast<CommandBits>(row.options)) == row.name);
  }
}

namespace {

/// What bash offers for these words, the last of which is being written; sorted, one a line.
std::string completed(const std::vector<std::string>& words) {
  const auto path = std::filesystem::temp_directory_path() / ("troupe_completions_" + std::to_string(::getpid()) + ".sh");
  std::string script = bash_completions() + "COMP_WORDS=(";
  for (const std::string& word : words) script += "'" + word + "' ";
  script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) + "\n_troupe\nprintf '%s\\n' \"${COMPREPLY[@]}\" | sort\n";
  std::ofstream(path) << script;
  FILE* output = ::popen(("bash -u " + path.string() + " 2>&1").c_str(), "r");
  REQUIRE(output != nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, output)) > 0;) text.append(buffer, count);
  CHECK(::pclose(output) == 0);
  std::filesystem::remove(path);
  return text;
}

}  // namespace

TEST_CASE("bash completes commands, options and values") {
  CHECK(completed({"troupe", "se"}) == "serve\n");
  CHECK(completed({"troupe", ""}).find("inspect\n") != std::string::npos);
  CHECK(completed({"troupe", "completions", ""}) == "bash\n");
  CHECK(completed({"troupe", "bench", "ro"}) == "roof\n");
  CHECK(completed({"troupe", "run", "--pro"}) == "--prompt\n");
  CHECK(completed({"troupe", "serve", "--pro"}) == "\n");
  CHECK(completed({"troupe", "serve", "--kv-format", ""}) == "fp16\nfp32\nint8\n");
  CHECK(completed({"troupe", "serve", "--kv", "fp1"}) == "fp16\n");
  CHECK(completed({"troupe", "serve", "--port", ""}) == "\n");
  const TemporaryFile file("");
  CHECK(completed({"troupe", "serve", "--config", file.path.string().substr(0, file.path.string().size() - 3)}) ==
        file.path.string() + "\n");
}
