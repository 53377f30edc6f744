// See terminal.h.
#include "cluster/terminal.h"

#include "messages/error_reasons.h"

#include <csignal>
#include <cstdio>

namespace troupe::cluster {
namespace {

// Set by Ctrl-C: stops the answer that is being written; at a prompt the read ends and so does the program.
volatile std::sig_atomic_t interrupted = 0;

Error bad_call(std::string text) { return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, std::move(text)); }

}  // namespace

Result<ReachedServer> reach_server(const Options& options, const std::string& command) {
  if (options.url.empty() && options.model.empty())
    return bad_call("give --url of a server or the path of a GGUF file; 'troupe " + command + " --help' lists the options");
  if (!options.url.empty() && !options.model.empty()) return bad_call("give --url or MODEL, not both");
  ReachedServer reached;
  std::string url = options.url;
  reached.shown_name = options.url;
  if (url.empty()) {
    auto started = EmbeddedNode::start(options);
    if (!started) return started.error();
    reached.embedded = std::move(*started);
    url = reached.embedded->url();
    reached.shown_name = reached.embedded->model().name;
  }
  auto address = parse_url(url);
  if (!address) return address.error();
  reached.address = *std::move(address);
  return reached;
}

ChatSettings chat_settings(const Options& options) {
  return {.api_key = options.api_key,
          .system_prompt = options.system_prompt,
          .max_tokens = options.max_tokens,
          .temperature = options.temperature,
          .seed = options.seed,
          .raw = options.raw};
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);  // without SA_RESTART: a blocking read returns
  signal(SIGPIPE, SIG_IGN);
}
bool was_interrupted() { return interrupted != 0; }
void forget_interrupt() { interrupted = 0; }

Result<ChatTurn> print_answer(ChatClient& client, const std::string& question) {
  bool begun = false;
  auto turn = client.ask(
      question,
      [&begun](std::string_view piece) {
        begun = true;
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      },
      [] { return was_interrupted() || std::ferror(stdout) != 0; });
  if (begun || turn) std::printf("\n");  // a request that was refused has written nothing
  std::fflush(stdout);
  if (!turn) print_fault(turn.error().client_text);
  return turn;
}

int print_fault(const std::string& text) {
  std::fprintf(stderr, "troupe: %s\n", text.c_str());
  return 1;
}

}  // namespace troupe::cluster
