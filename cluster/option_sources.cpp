// Command line (CLI11) and environment; the order of the sources. See option_sources.h.
#include "cluster/option_sources.h"
#include "cluster/option_hint.h"
#include "messages/error_reasons.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>

namespace troupe::cluster {
namespace {

/// What the command line said, by row: every value as text, in order.
using GivenValues = std::map<const OptionRow*, std::vector<std::string>>;

std::string first_line(std::string text) {
  if (auto end = text.find('\n'); end != std::string::npos) text.resize(end);
  return text;
}

void add_to(CLI::App& app, const OptionRow& row, GivenValues& given) {
  const bool flag = std::holds_alternative<bool Options::*>(row.field);
  const bool list = std::holds_alternative<std::vector<std::string> Options::*>(row.field);
  std::string names = row.positional ? std::string(row.name) : "--" + std::string(row.name);
  if (!row.short_name.empty()) names += ",--" + std::string(row.short_name);
  if (row.field == OptionField(&Options::model)) names += ",-m,--model";  // as servers of other makers have it
  CLI::Option* option = nullptr;
  if (flag) {
    option = app.add_flag_callback(names, [&given, &row] { given[&row] = {"true"}; });
  } else {
    option = app.add_option_function<std::vector<std::string>>(names, [&given, &row](const std::vector<std::string>& values) {
      given[&row] = values;
      if (!row.bare_value.empty() && (values.empty() || values.front().empty())) given[&row] = {std::string(row.bare_value)};
    });
    option->expected(row.bare_value.empty() ? 1 : 0, list ? 1 << 16 : 1);
    option->allow_extra_args(list && row.positional);
    if (!list) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    const std::string value = option_text(Options{}, row);
    const std::string allowed = allowed_text(row);
    option->type_name(std::string(row.unit) + (allowed.empty() ? "" : " (" + allowed + ")") + (value.empty() ? "" : " [" + value + "]"));
  }
  option->description(std::string(row.help));
  if (row.hidden) option->group("");
}

/// The first argument that no option takes: an unknown option rather than the value behind it, which CLI11 may take for MODEL.
std::string unexpected(const std::vector<std::string>& arguments, CommandBits command) {
  const auto option = std::find_if(arguments.begin(), arguments.end(), [](const std::string& text) { return text.starts_with('-'); });
  if (option == arguments.end()) return quotable(arguments.empty() ? "" : arguments.front()) + ": this argument was not expected";
  const std::string name = option->substr(0, option->find('='));  // what is behind it may be a secret
  return quotable(name) + ": there is no such option" + option_hint(name, command);
}

std::string_view purpose(CommandBits command) {
  switch (command) {
    case kServe: return "Serves a model over HTTP and WebSocket, with a chat page at /.";
    case kChat: return "Chats in the terminal: with the server at --url, or with MODEL in this process. For one prompt: troupe run.";
    case kRun:
      return "Answers one prompt on standard output: by the server at --url, or by MODEL in this process.\n"
             "Exit code: 0 answered, 1 not answered (the reason is on standard error), 130 stopped by Ctrl-C.";
    case kLaunch:
      return "Serves a model with several processes that work together, as a cluster file says. The options are those of troupe serve;\n"
             "they win over the file.";
    case kInspect: return "Tells the facts of a model file, without loading it. Exit code: 0 it can be served, 1 it cannot.";
    default:
      return "Measures MODEL on this machine: prefill, decode, where a step's time goes (step), how near the kernels come to the\n"
             "machine's limits (roof), and what clients of a server see (http, also with --url of any OpenAI-compatible server).";
  }
}

}  // namespace

const char* process_environment(const std::string& name) { return std::getenv(name.c_str()); }

Result<ParsedOptions> parse_options(CommandBits command, const std::vector<std::string>& arguments, const Environment& environment) {
  const std::string program = "troupe " + std::string(command_name(command));
  CLI::App app(std::string(purpose(command)), program);
  app.get_formatter()->column_width(40);
  app.footer(
      "Every option can also be set by an environment variable (--kv-memory: TROUPE_KV_MEMORY) and, where\n"
      "there is --config, by a key of its file (kv-memory = \"2GiB\"). The command line wins over the environment, that over the file.");
  GivenValues given;
  for (const OptionRow& row : option_table())
    if (takes(command, row)) add_to(app, row, given);

  ParsedOptions parsed;
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    parsed.help = app.help();
    return parsed;
  } catch (const CLI::ExtrasError&) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      unexpected(app.remaining(), command) + " ('" + program + " --help' lists the options)");
  } catch (const CLI::ParseError& fault) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      first_line(fault.what()) + "; '" + program + " --help' lists the options");
  }

  Options& options = parsed.options;
  const OptionRow& config_row = *find_option("config");
  if (auto found = given.find(&config_row); found != given.end())
    options.config_file = found->second.back();
  else if (const char* path = environment(environment_name(config_row)); path != nullptr && command != kLaunch)
    options.config_file = path;
  if (!options.config_file.empty()) {
    const std::string path = options.config_file;
    if (auto status = apply_config_file(options, path); !status) return status.error();
  }
  for (const OptionRow& row : option_table()) {
    const std::string name = environment_name(row);
    const char* value = environment(name);
    if (value == nullptr || &row == &config_row || !takes(command, row)) continue;
    clear_option(options, row);
    if (auto status = set_option(options, row, value, name); !status) return status.error();
    options.sources[std::string(row.name)] = OptionSource::kEnvironment;
  }
  for (const auto& [row, values] : given) {
    clear_option(options, *row);
    options.sources[std::string(row->name)] = OptionSource::kCommandLine;
    for (const std::string& value : values)
      if (auto status = set_option(options, *row, value, shown_name(*row)); !status) return status.error();
  }
  return parsed;
}

}  // namespace troupe::cluster
