// See chat_command.h.
#include "cluster/chat_command.h"
#include "cluster/chat_client.h"
#include "cluster/node.h"
#include "cluster/start_report.h"
#include "messages/error_reasons.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <string>
#include <thread>
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

/// A node inside this process, with its loop in a thread; drained at the end.
class EmbeddedNode {
 public:
  static Result<std::unique_ptr<EmbeddedNode>> start(const Options& options) {
    auto embedded = std::make_unique<EmbeddedNode>();
    Options own = options;
    own.host = "127.0.0.1";
    own.port = 0;
    own.api_key_file.clear();
    NodeEvents events;
    events.on_load_progress = [e = embedded.get()](std::size_t done, std::size_t total) { e->report_.progress(done, total); };
    events.on_ready = [e = embedded.get()](const ReadyNode&) { e->settle(""); };
    events.on_fatal = [e = embedded.get()](const std::string& reason) { e->settle(reason); };
    auto node = Node::make(own, events, false);
    if (!node) return node.error();
    embedded->node_ = std::move(*node);
    embedded->loop_ = std::thread([e = embedded.get()] { e->exit_code_ = e->node_->run(); });
    const std::string fault = embedded->settled_.get_future().get();
    embedded->report_.line("");
    if (!fault.empty()) return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, fault);
    return embedded;
  }
  ~EmbeddedNode() {
    if (node_) node_->drain(std::chrono::milliseconds(1));
    if (loop_.joinable()) loop_.join();
    if (exit_code_ != 0) std::_Exit(1);  // see Node::run
  }
  std::string url() const { return node_->url(); }
  std::string name() const { return node_->model().name; }

 private:
  void settle(const std::string& fault) {
    if (!done_.exchange(true))
      settled_.set_value(fault);
    else if (!fault.empty())
      report_.line("troupe: " + fault);
  }
  StartReport report_;
  std::promise<std::string> settled_;
  std::atomic<bool> done_{false};
  std::unique_ptr<Node> node_;
  std::thread loop_;
  std::atomic<int> exit_code_{0};
};

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
    with = embedded->name();
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
