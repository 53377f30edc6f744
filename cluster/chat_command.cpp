// See chat_command.h.
#include "cluster/chat_command.h"
#include "cluster/chat_client.h"
#include "cluster/embedded_node.h"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>

namespace troupe::cluster {
namespace {

// Set by Ctrl-C: stops the answer that is being written; at the prompt the read ends and so does the program.
volatile std::sig_atomic_t interrupted = 0;

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);  // without SA_RESTART: a blocking read returns
  signal(SIGPIPE, SIG_IGN);
}

int fail(const std::string& text) {
  std::fprintf(stderr, "troupe: %s\n", text.c_str());
  return 1;
}

/// Asks once and prints the answer as it comes. False: the error was printed.
bool ask(ChatClient& client, const std::string& question, bool notes) {
  interrupted = 0;
  auto turn = client.ask(
      question,
      [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      },
      [] { return interrupted != 0; });
  std::printf("\n");
  std::fflush(stdout);
  if (!turn) {
    fail(turn.error().client_text);
    return false;
  }
  if (notes && turn->finish_reason == "cancelled") std::fprintf(stderr, "(stopped)\n");
  if (notes && turn->finish_reason == "length") std::fprintf(stderr, "(the limit of tokens was reached)\n");
  return true;
}

int converse(ChatClient& client, const std::string& with) {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) std::fprintf(stderr, "Chat with %s. /new starts anew, /quit or Ctrl-D ends, Ctrl-C stops an answer.\n", with.c_str());
  bool good = true;
  for (;;) {
    if (terminal) std::fputs("\n> ", stderr);
    interrupted = 0;
    std::string question;
    if (!std::getline(std::cin, question)) break;
    if (question == "/quit" || question == "/exit") break;
    if (question.empty()) continue;
    if (question == "/new") {
      client.forget();
      continue;
    }
    good = ask(client, question, terminal);
  }
  if (terminal) std::fputs("\n", stderr);
  return good ? 0 : 1;  // of a script's last question
}

}  // namespace

int run_chat(const Options& options) {
  if (options.url.empty() && options.model.empty())
    return fail("give --url of a server or the path of a GGUF file; 'troupe chat --help' lists the options");
  if (!options.url.empty() && !options.model.empty()) return fail("give --url or MODEL, not both");
  std::unique_ptr<EmbeddedNode> embedded;
  std::string url = options.url, with = options.url;
  if (url.empty()) {
    auto started = EmbeddedNode::start(options);
    if (!started) return fail(started.error().client_text);
    embedded = std::move(*started);
    url = embedded->url();
    with = embedded->model().name;
  }
  auto server = parse_url(url);
  if (!server) return fail(server.error().client_text);
  catch_interrupts();
  ChatClient client(*server, {.api_key = options.api_key,
                              .system_prompt = options.system_prompt,
                              .max_tokens = options.max_tokens,
                              .temperature = options.temperature,
                              .seed = options.seed});
  if (!options.prompt.empty()) return ask(client, options.prompt, false) ? 0 : 1;
  return converse(client, with);
}

}  // namespace troupe::cluster
