// TestCompany: the whole company on CAF's deterministic scheduler with virtual time, a fake engine, and a gateway that writes down what it
// gets. Nothing runs but when the test says so; compute jobs are pumped by hand. Every message sent is recorded by sender, receiver, name.
#pragma once
#include "actors/actor_config.h"
#include "actors/company.h"
#include "actors/compute.h"
#include "messages/admission.capnp.h"
#include "messages/request.capnp.h"
#include "runtime/session/request.h"
#include "tests/actors/fake_engine.h"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::test {

using actors::Role;
using std::chrono::milliseconds;

/// Jobs wait until the test runs them.
class ManualCompute final : public actors::Compute {
 public:
  void post(std::function<void()> job) override { jobs_.push_back(std::move(job)); }
  bool run_one();
  std::size_t waiting() const { return jobs_.size(); }

 private:
  std::deque<std::function<void()>> jobs_;
};

/// What a client has seen of one request.
struct Stream {
  caf::actor session;
  std::uint32_t admitted = 0, deltas = 0, finished = 0;  // messages
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  std::map<std::uint16_t, std::string> text;          // by choice
  std::map<std::uint16_t, std::vector<TokenId>> ids;  // where log-probabilities were asked for
  std::map<std::uint16_t, std::vector<float>> logprobs;
  std::vector<messages::FinishReason> reasons;
  std::vector<std::string> stops;
  std::optional<Error> error;
  std::optional<kv::CacheReport> cache;
  std::vector<TokenId> tokenized;
  bool session_died = false;  // without a RequestFinished
};

struct TestCompanyOptions {
  FakeEngineOptions engine;
  std::function<std::unique_ptr<exec::ShardEngine>()> make_engine;  // instead of the fake one
  exec::ShardSpec shard;                                            // for make_engine
  std::size_t vocabulary = 259;                                     // of the tiny tokenizer: control tokens, bytes, then merges
  schedule::SchedulerOptions scheduler;
  milliseconds watchdog{1000};
  actors::RestartLimits actors{.restarts = 2, .window = milliseconds{60'000}};
  actors::RestartLimits epochs{.restarts = 1000, .window = milliseconds{60'000}};
  std::uint32_t retry_budget = 3;
  std::string chat_template;  // empty: ChatML
  bool grant_credit = true;   // the gateway gives a credit back for each delta
  std::size_t max_stored_tokens = 1U << 20;
  std::uint16_t processes = 0;  // ranks that are started as processes; the test plays them. 0: one in this process
};

class TestCompany {
 public:
  explicit TestCompany(TestCompanyOptions options = {});
  ~TestCompany();

  /// Runs actors, block moves and compute until nothing is ready. `steps`: at most so many compute jobs.
  void settle(std::size_t jobs = SIZE_MAX);
  /// Moves the clock, in steps, and settles.
  void advance(milliseconds time);
  /// Likewise, with a compute thread that does not return.
  void advance_stalled(milliseconds time);
  /// advance until `request` is finished or `limit` is over.
  void run_until_finished(RequestId request, milliseconds limit = milliseconds{20'000});

  RequestId submit(session::Request request);
  /// A plain completion of token ids, greedy, to `max_tokens`.
  static session::Request completion(std::vector<TokenId> prompt, std::uint32_t max_tokens);
  static session::Request chat(std::vector<session::InputItem> items, std::uint32_t max_tokens);
  void cancel(RequestId request, bool silent);
  void grant(RequestId request, std::uint32_t deltas);
  void kill(const caf::actor& actor) { caf::anon_send_exit(actor, caf::exit_reason::kill); }
  caf::actor find(Role role) const {
    const bool node = role == Role::NODE_SUPERVISOR || role == Role::GATEWAY || role == Role::SESSION_STORE || role == Role::ROUTER ||
                      role == Role::SHARD;
    return company->find(role, node ? 0U : 1U);
  }

  Stream& stream(RequestId request) const { return streams->at(request.value); }
  std::vector<TokenId> tokens_of(std::string_view text) const;  // one a byte
  std::string text_of(const std::vector<TokenId>& tokens) const { return tokenizer->decode(tokens); }

  /// "Scheduler>Shard:ForwardPlan", in order of sending. `mark` forgets what came before.
  const std::vector<std::string>& sent() const { return *log; }
  void mark() { log->clear(); }
  /// True if the named messages were sent in this order, others between them allowed.
  bool saw(const std::vector<std::string>& wanted) const;
  std::size_t count(std::string_view message) const;
  double metric(const std::string& line_start) const;
  /// No sequence runs or waits, no block is leased beyond the standing lease or locked.
  bool all_blocks_free();

  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<base::Metrics> metrics = std::make_shared<base::Metrics>();
  std::shared_ptr<ManualCompute> compute = std::make_shared<ManualCompute>();
  std::shared_ptr<exec::RankStores*> stores = std::make_shared<exec::RankStores*>(nullptr);  // of the fake engine; null: none
  std::shared_ptr<std::map<std::uint64_t, Stream>> streams = std::make_shared<std::map<std::uint64_t, Stream>>();
  std::shared_ptr<std::vector<std::string>> log = std::make_shared<std::vector<std::string>>();
  std::shared_ptr<std::vector<std::string>> directory = std::make_shared<std::vector<std::string>>();  // "name serving"
  std::vector<std::pair<std::uint16_t, Incarnation>> started;  // processes that the supervisor asked for
  std::optional<int> fatal;
  std::optional<std::uint32_t> drained;
  bool ready = false;
  bool hold_moves = false;  // block moves wait
  caf::actor gateway;
  actors::ActorConfig config{actors::ActorConfig::Testing{}};
  caf::actor_system system{config};
  std::optional<actors::Company> company;

 private:
  void run_actors();
  caf::scheduler::test_coordinator& scheduler() { return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()); }
  std::string role_of(std::uint64_t actor_id) const;
  std::uint64_t next_request_ = 1;
  bool grant_credit_ = true;
};

}  // namespace troupe::test
