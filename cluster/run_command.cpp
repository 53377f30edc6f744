// See run_command.h.
#include "cluster/run_command.h"

#include "cluster/terminal.h"
#include "messages/error_reasons.h"

#include <cstdio>
#include <string>
#include <unistd.h>

namespace troupe::cluster {
namespace {

constexpr std::size_t kMaxPrompt = 1 << 20;  // bytes; more than a server takes in one request
constexpr int kInterruptedCode = 130;        // 128 + SIGINT, as shells have it

Error bad_prompt(std::string text) { return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, std::move(text)); }

/// All of standard input, less the line break that ends it.
Result<std::string> read_input() {
  std::string text;
  char buffer[4096];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    text.append(buffer, count);
    if (text.size() > kMaxPrompt) return bad_prompt("the prompt has more than " + std::to_string(kMaxPrompt) + " bytes");
  }
  if (std::ferror(stdin) != 0) return bad_prompt("standard input cannot be read");
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::string> prompt_of(const Options& options) {
  const bool from_input = options.prompt == "-" || (options.prompt.empty() && isatty(STDIN_FILENO) == 0);
  auto prompt = from_input ? read_input() : Result<std::string>(options.prompt);
  if (prompt && prompt->empty()) return bad_prompt("there is no prompt; give --prompt TEXT, or --prompt - for standard input");
  return prompt;
}

}  // namespace

int run_prompt(const Options& options) {
  if (options.raw && !options.system_prompt.empty()) return print_fault("--raw takes no --system: there is no template to put it in");
  const auto prompt = prompt_of(options);  // before a model is loaded for nothing
  if (!prompt) return print_fault(prompt.error().client_text);
  const auto server = reach_server(options, "run");
  if (!server) return print_fault(server.error().client_text);
  catch_interrupts();
  ChatClient client(server->address, chat_settings(options));
  const auto turn = print_answer(client, *prompt);
  if (!turn) return was_interrupted() ? kInterruptedCode : 1;
  if (std::ferror(stdout) != 0) return print_fault("standard output cannot be written");
  return was_interrupted() ? kInterruptedCode : 0;
}

}  // namespace troupe::cluster
