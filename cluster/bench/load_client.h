// LoadClient: many streamed completions and chat completions at once from one thread, and when each piece of text came. Cheap on purpose:
// it shares the cores with the server it measures. Owned and used by one thread. Every byte of the server is untrusted (http_answer.h).
// Invariant: each call that was started ends exactly once, with a CallResult.
#pragma once
#include "cluster/bench/report.h"
#include "cluster/http_stream.h"
#include "messages/ids.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

/// Seconds on the steady clock.
double now_seconds();

struct CallResult {
  double start = 0, end = 0;                                              // seconds
  std::vector<double> stamps;                                             // arrival of each event that carries text
  std::vector<std::string> texts;                                         // one a choice
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // as `usage` says; without usage output = number of stamps
  TierTokens tiers;                                                       // of the cached ones; zeros where the server does not tell
  int status = 0;                                                         // of HTTP; 0: no answer
  std::string error;                                                      // empty: the answer is complete
  bool good() const { return error.empty(); }
  const std::string& text() const { return texts.front(); }
  double first_token_seconds() const { return stamps.front() - start; }  // of a good one
};

struct ChatSettings {
  std::string model = {};
  std::string api_key = {};
  bool ignore_eos = false;
  double timeout_seconds = 900;  // of a call
};

struct ChatMessage {
  std::string role, content;
};

/// What /v1/completions is asked.
struct CompletionCall {
  std::string prompt;
  std::vector<TokenId> prompt_ids = {};  // if there are any, they are the prompt
  std::uint32_t max_tokens = 1, choices = 1;
  double temperature = 0;
  std::uint64_t seed = 0;
  std::uint32_t logprobs = 0;  // alternatives of each token; 0: not asked for
};

class LoadClient {
 public:
  using Done = std::function<void(CallResult&&)>;
  using Watch = std::function<void(const CallResult&)>;

  LoadClient(ServerAddress server, ChatSettings settings, const std::atomic<bool>& stop);
  ~LoadClient();
  /// Begins a call: greedy, streamed, with usage. `done` and `watch` (at each piece of text) are called from run() and may start more.
  void start(const std::vector<ChatMessage>& messages, std::uint32_t max_tokens, Done done, Watch watch = {});
  /// The same of a completion, which may have no text: one token can be a control token.
  void start(const CompletionCall& asked, Done done);
  /// Calls `then` after that many seconds, from run().
  void after(double seconds, std::function<void()> then);
  /// Until nothing is open or due. With `stop` set, what is open ends with an error at once.
  void run();
  /// `start_one(i, done)` starts call i: calls 0 ... count - 1, `clients` at a time, until all have ended. Results as they ended.
  std::vector<CallResult> run_all(std::size_t count, std::uint32_t clients, const std::function<void(std::size_t, Done)>& start_one);
  /// start() and run() of one call.
  CallResult call(const std::vector<ChatMessage>& messages, std::uint32_t max_tokens);

 private:
  struct Call;
  struct Timer {
    double due = 0;
    std::function<void()> then;
  };
  Call& open(const std::string& path, const std::string& body, std::size_t choices, Done done);
  void take_bytes(Call& call);
  void take_event(Call& call, std::string_view event);
  void finish(Call& call, std::string error);
  void fire_timers();

  ServerAddress server_;
  ChatSettings settings_;
  const std::atomic<bool>& stop_;
  std::vector<std::unique_ptr<Call>> calls_;  // open; finished ones are taken out by run()
  std::vector<Timer> timers_;
};

}  // namespace troupe::cluster::bench
