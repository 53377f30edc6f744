// The program `troupe`: picks a command, gives it its options, returns its exit code. Everything else lives in the commands.
#include "cluster/bench/bench_command.h"
#include "cluster/chat_command.h"
#include "cluster/option_sources.h"
#include "cluster/serve_command.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::cluster;

constexpr const char* kUsage =
    "usage: troupe COMMAND [arguments]\n"
    "\n"
    "  serve MODEL   serve a model over HTTP and WebSocket, with a chat page\n"
    "  chat          chat in the terminal: --url of a server, or MODEL in this process\n"
    "  bench MODEL   measure prefill, decode, steps, kernels and serving on this machine\n"
    "  options       all options as a Markdown page\n"
    "\n"
    "'troupe COMMAND --help' lists the options of a command; 'troupe --version' names the version.\n";

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
  if (command == "serve") return run_with_options(kServe, arguments);
  if (command == "chat") return run_with_options(kChat, arguments);
  if (command == "bench") return run_with_options(kBench, arguments);
  if (command == "--version") {
    std::printf("troupe %s\n", std::string(base::version()).c_str());
    return 0;
  }
  const bool help = command == "--help" || command == "-h" || command == "help";
  if (command == "options")
    std::fputs(options_markdown().c_str(), stdout);
  else if (help)
    std::fputs(kUsage, stdout);
  else
    std::fprintf(stderr, "troupe: %s\n%s", command.empty() ? "no command given" : ("unknown command: " + command).c_str(), kUsage);
  return command == "options" || help ? 0 : 1;
}
