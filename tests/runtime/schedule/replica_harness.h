// ReplicaHarness: a Scheduler, a real DeviceTier, a FakeShard and tiers below, with message queues between them as between actors. Every
// message is checked on its way: blocks only while held, tokens in order, one finish a choice, the tokens of an undisturbed run.
#pragma once
#include "runtime/kv/device_tier.h"
#include "runtime/schedule/scheduler.h"
#include "tests/runtime/schedule/fake_shard.h"
#include "tests/runtime/schedule/tiers_below.h"

#include <deque>
#include <map>
#include <variant>
#include <vector>

namespace troupe::schedule::test {

struct ChoiceOutcome {
  std::vector<TokenId> tokens;
  TopLogprobs logprobs;
  std::vector<std::size_t> message_sizes;
  TimePoint last_message;
  TimePoint::duration longest_gap{0};  // between two messages
  Finish finish = Finish::kRunning;
  TokenId stop_token = 0;
  Error error;
  bool aborted = false;
};

struct RequestOutcome {
  AdmitSequence request;
  bool admitted = false;
  std::optional<Error> refused;
  std::map<std::uint16_t, ChoiceOutcome> choices;
  std::optional<kv::CacheReport> report;
  std::uint32_t scored_from = kNone32;
  TopLogprobs scores;
};

class ReplicaHarness {
 public:
  explicit ReplicaHarness(SchedulerOptions options);

  void ready(std::uint32_t blocks, std::uint32_t context);
  void lose(bool final = false);
  void submit(AdmitSequence request);  // its sampling.seed is set to the request's number
  void abort(std::uint64_t request, std::vector<std::uint16_t> choices = {});
  void advance_time(std::chrono::microseconds by);
  void drain();

  /// One message each; false if there is none.
  bool tier_step();
  bool reply_step();
  bool shard_step();
  bool move_step(bool any = false);  // a set of loads ends; of several, any
  /// All tier messages and replies.
  void settle();
  /// settle(), shard_step() and move_step() until nothing moves, time passing with the steps.
  void run_to_idle(std::size_t most_steps = 100000);

  /// The choice's tokens against the reference, and its finish.
  void check_outcome(std::uint64_t request) const;
  /// Nothing is left: no lock, no lease but the standing one, no block lost.
  void check_conservation();

  Scheduler& scheduler() { return scheduler_; }
  kv::DeviceTier& tier() { return tier_; }
  FakeShard& shard() { return shard_; }
  TiersBelow& below() { return below_; }
  RequestOutcome& outcome(std::uint64_t request) { return outcomes_.at(request); }
  std::map<std::uint64_t, RequestOutcome>& outcomes() { return outcomes_; }
  std::vector<plan::ForwardPlan>& plans() { return plans_; }
  std::vector<ReplicaLoad>& loads() { return loads_; }
  GroupEpoch epoch() const { return epoch_; }
  TimePoint now() const { return now_; }
  std::uint32_t context() const { return context_; }
  std::uint32_t disk_read_us = 0;              // these are told with the next ready()
  std::uint32_t stages = 1, tensor_ranks = 1;  // a plan goes through the stages one after the other, as fast as the shard says for each
  GroupSpeed speed;
  std::uint32_t blocks() const { return blocks_; }

  bool leases_in_parts = false;  // as where a write-down holds some of the blocks

 private:
  using ToTier = std::variant<kv::Match, kv::LeaseBlocks, kv::PublishBlocks, kv::ReleaseBlocks, kv::LoadFinished>;
  using ToScheduler = std::variant<kv::PrefixMatched, kv::BlocksLeased>;
  void pump();
  plan::ForwardResult run_plan();
  void take(const TokensGenerated& message);
  void take(const PromptScored& message);

  SchedulerOptions options_;
  Scheduler scheduler_;
  kv::DeviceTier tier_;
  BlockLedger ledger_;
  FakeShard shard_{ledger_};
  TiersBelow below_{ledger_};
  std::deque<ToTier> to_tier_;
  std::deque<ToScheduler> to_scheduler_;
  std::vector<plan::ForwardPlan> plans_;
  std::vector<ReplicaLoad> loads_;
  std::map<std::uint64_t, RequestOutcome> outcomes_;
  std::optional<TimePoint> wake_at_;
  std::deque<TimePoint> sent_;         // of plans in flight, where there are stages
  std::vector<TimePoint> stage_free_;  // when each is done with all plans so far
  TimePoint now_{std::chrono::seconds(1000)};
  GroupEpoch epoch_;
  std::uint32_t context_ = 0, blocks_ = 0;
  bool serving_ = false;
};

/// `length` tokens that depend on `stream` alone; none is EOS.
std::vector<TokenId> make_prompt(std::uint64_t stream, std::uint32_t length);
AdmitSequence make_request(std::uint64_t number, std::vector<TokenId> prompt, std::uint32_t max_tokens);

}  // namespace troupe::schedule::test
