// Scheduler: queues, sequences, block tables and the lease of one replica, as a plain state machine. The actor
// (actors/scheduler_actor.cpp) turns messages into calls and `take_output()` into messages; time comes in as an argument.
// Thread: whoever owns it, one at a time. Invariants: plans are deltas in step order without gaps; a block is named by a plan only
// while leased or locked here; at most `plans_in_flight` plans (with stages: one more than those) have no result; exactly one finish a
// choice.
#pragma once
#include "runtime/schedule/admission.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::schedule {

using TimePoint = std::chrono::steady_clock::time_point;

struct SchedulerOptions {
  ReplicaId replica{1};
  std::string policy = "fcfs";       // row of policy_table.cpp
  std::uint32_t max_sequences = 64;  // running at once
  std::uint32_t token_budget = 512;  // rows of a step, at most
  std::uint32_t min_chunk = 32;
  std::uint32_t stall_budget_ms = 100;    // largest gap between tokens of a running stream
  std::uint32_t delivery_window_ms = 20;  // W, from `window_from` running sequences on
  std::uint32_t window_from = 8;
  std::uint32_t max_queued_requests = 256;
  std::uint64_t max_queued_tokens = 1 << 20;
  std::uint32_t context_tokens = 0;   // of the model
  std::uint32_t plans_in_flight = 2;  // with one stage; with more, one more than stages
  std::string overlap = "auto";       // auto | off | always (for tests), where ranks compute together
  std::uint32_t max_losses = 8;       // groups lost in a row while a sequence ran without a new token; then it fails
  std::vector<TokenId> eos;           // end of generation unless ignore_eos
};

/// What a call left to be sent, in this order. Moved out by take_output().
struct SchedulerOutput {
  std::vector<plan::ForwardPlan> plans;  // to every shard
  std::vector<plan::MoveBlocks> moves;   // likewise
  std::vector<kv::PublishBlocks> publishes;
  std::vector<kv::LoadFinished> finished_loads;
  std::vector<kv::ReleaseBlocks> releases;
  std::vector<kv::Match> matches;  // behind what they may find
  std::vector<kv::LeaseBlocks> leases;
  std::vector<SequenceAdmitted> admitted;
  std::vector<AdmissionRefused> refused;
  std::vector<TokensGenerated> tokens;
  std::vector<PromptScored> scored;
  std::vector<ReplicaLoad> loads;
  std::optional<TimePoint> wake_at;  // call on_time() then (window ends, deadlines)
};

/// What a row of a long prompt costs, as the ranks measured it when they met. All 0: not measured, or one rank.
struct GroupSpeed {
  double compute_us = 0;         // a row, all layers of a rank
  double wire_us = 0;            // a row, all reduces
  double reduce_us = 0;          // of a reduce without rows
  std::uint32_t reduces = 0;     // of a step on a rank
  std::uint32_t row_hidden = 0;  // values of a row
};

struct GroupReady {
  GroupEpoch epoch;
  std::uint32_t device_blocks = 0;
  std::uint32_t context_tokens = 0;
  std::uint32_t ranks = 1;
  std::uint64_t block_bytes = 0;   // over all ranks
  std::uint32_t disk_read_us = 0;  // of one block; 0 = not known
  std::uint32_t stages = 1;
  GroupSpeed speed{};
};

/// Facts for /metrics; monotonic counters and gauges.
struct SchedulerStats {
  std::uint64_t steps = 0, prompt_tokens = 0, generated_tokens = 0, cached_tokens = 0, preemptions = 0, stall_overruns = 0, wasted_rows = 0;
  std::uint64_t host_blocks_loaded = 0, disk_blocks_loaded = 0, load_us = 0;  // time that sequences waited for loads
  std::uint64_t loads_declined = 0, loads_failed = 0;                         // cheaper to compute; moves that failed
  std::uint64_t overlapped_steps = 0, wire_us = 0, wait_us = 0;               // a reduce under way; nothing computed meanwhile
  std::uint32_t running = 0, waiting = 0, free_blocks = 0, total_blocks = 0, leased_blocks = 0;
  double step_margin = 1, delivery_us = 0;  // CostModel::margin(), Delivery::cost_us()
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  void admit(AdmitSequence request, TimePoint now);
  void abort(const AbortSequence& request, TimePoint now);
  void on_prefix_matched(const kv::PrefixMatched& match, TimePoint now);
  void on_blocks_leased(const kv::BlocksLeased& leased, TimePoint now);
  void on_moves_finished(const plan::MovesFinished& moves, TimePoint now);  // one a rank and load
  void on_result(const plan::ForwardResult& result, TimePoint now);         // plans the next step, then emits tokens
  void on_group_lost(GroupEpoch epoch, bool final, const Error& error, TimePoint now);
  void on_group_ready(const GroupReady& group, TimePoint now);
  void on_time(TimePoint now);
  void drain(TimePoint now);  // refuse admissions; finish what runs
  bool idle() const;          // no request, nothing in flight, nothing leased or locked but the standing lease
  SchedulerStats stats() const;
  SchedulerOutput take_output();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::schedule
