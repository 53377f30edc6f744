// The program `troupe`: picks a command, gives it its options, returns its exit code. Everything else lives in the commands.
#include "cluster/bench/bench_command.h"
#include "cluster/chat_command.h"
#include "cluster/commands.h"
#include "cluster/inspect_command.h"
#include "cluster/launch/launch_command.h"
#include "cluster/option_sources.h"
#include "cluster/rank_node.h"
#include "cluster/run_command.h"
#include "cluster/serve_command.h"
#include "gateway/openapi.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"

#include <csignal>
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::cluster;

std::string usage() {
  constexpr std::size_t kWidth = 18;
  std::string text = "usage: troupe COMMAND [arguments]\n\n";
  for (const CommandRow& row : command_table()) {
    std::string call = std::string(row.name) + " " + std::string(row.arguments);
    call.resize(std::max(call.size() + 1, kWidth), ' ');
    text += "  " + call + std::string(row.help) + "\n";
  }
  return text + "\n'troupe COMMAND --help' lists the options of a command; 'troupe --version' names the version.\n";
}

bool is_command(const std::string& name) {
  return std::ranges::any_of(command_table(), [&](const CommandRow& row) { return row.name == name; });
}

int run_with_options(CommandBits command, const std::vector<std::string>& arguments) {
  auto parsed = parse_options(command, arguments, process_environment);
  if (!parsed) {
    std::fprintf(stderr, "troupe: %s\n", parsed.error().client_text.c_str());
    return 1;
  }
  if (!parsed->help.empty()) {
    std::fputs(parsed->help.c_str(), stdout);
    return 0;
  }
  base::set_log_level(parsed->options.log_level);
  base::set_log_format(parsed->options.log_format);
  switch (command) {
    case kServe: return run_serve(parsed->options);
    case kChat: return run_chat(parsed->options);
    case kRun: return run_prompt(parsed->options);
    case kInspect: return run_inspect(parsed->options);
    case kLaunch: return launch::run_launch(parsed->options);
    default: return run_bench(parsed->options);
  }
}

/// A daemon may start with its standard streams closed; then the first files and sockets would take their numbers, and what is printed
/// would go into them.
void open_standard_streams() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = ::open("/dev/null", O_RDWR);
  if (opened > STDERR_FILENO) ::close(opened);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that reaches `ulimit -f` is a failed write, not the end of the process
  const std::string command = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + (argc > 1 ? 2 : 1), argv + argc);
  for (const CommandRow& row : command_table())
    if (row.name == command && row.options != 0) return run_with_options(static_cast<CommandBits>(row.options), arguments);
  if (command == "shard") return run_rank_node();  // no user's command: the process of a rank
  if (command == "--version") {
    std::printf("troupe %s\n", std::string(base::version()).c_str());
    return 0;
  }
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h" || word == "help"; };
  const bool help = is_help(command) || (arguments.size() == 1 && is_help(arguments[0]) && is_command(command));
  const bool completions = command == "completions" && arguments == std::vector<std::string>{"bash"};
  if (help) {
    std::fputs(usage().c_str(), stdout);
  } else if (command == "options") {
    std::fputs(options_markdown().c_str(), stdout);
  } else if (command == "api") {
    std::fputs(gateway::api_markdown().c_str(), stdout);
  } else if (completions) {
    std::fputs(bash_completions().c_str(), stdout);
  } else {
    const std::string fault = command.empty()            ? "no command given"
                              : command == "completions" ? "completions are made for bash: troupe completions bash"
                                                         : "unknown command: " + command;
    std::fprintf(stderr, "troupe: %s\n%s", fault.c_str(), usage().c_str());
    return 1;
  }
  return 0;
}
