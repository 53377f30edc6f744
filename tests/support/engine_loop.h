// EngineLoop: a whole replica without actors, on the calling thread: Scheduler, DeviceTier and the ranks' Executors exchange by hand what
// the actors would send. Time is virtual and plans cost what the loop says, so a run is the same every time.
// For tests that ask which tokens come out; how they are delivered is tested with the actors.
#pragma once
#include "runtime/kv/device_tier.h"
#include "runtime/schedule/scheduler.h"
#include "tests/support/load_model.h"
#include "tests/support/shard_group.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

struct LoopOptions {
  kernels::KvFormat kv_format = kernels::KvFormat::kInt8;
  std::uint32_t blocks = 512;
  std::uint32_t token_budget = 512, min_chunk = 32, max_sequences = 64;
  std::string policy = "fcfs";
  bool poison = true;  // fills every unwritten slot with 0xff
  /// Where a plan's rows are cut in parts (ForwardPlan::cuts). Empty: where the scheduler says.
  std::function<std::vector<std::uint32_t>(const plan::ForwardPlan& plan)> cuts;
};

struct LoopRequest {
  std::vector<TokenId> prompt;
  std::uint32_t max_tokens = 16;
  plan::SamplingParameters sampling;
  std::uint16_t choices = 1;
  bool ignore_eos = true;
  std::vector<TokenId> stop_tokens;
  std::int32_t priority = 0;
};

/// Of one choice. Equal bit for bit: what this whole project promises.
struct LoopOutput {
  std::vector<TokenId> tokens;
  schedule::TopLogprobs logprobs;
  schedule::Finish finish = schedule::Finish::kRunning;
  std::string error;  // of kFailed, or of a refusal
  kv::CacheReport cache;
};
/// Tokens, log-probabilities and finish equal bit for bit (the cache report may differ). Says where they first differ.
std::string difference(const LoopOutput& a, const LoopOutput& b);

class EngineLoop {
 public:
  EngineLoop(LoadedModel& model, const LoopOptions& options);

  RequestId submit(const LoopRequest& request);
  void abort(RequestId request);
  /// Runs one plan, or moves the clock on where none is due. False: nothing is left to do.
  bool step();
  /// Until nothing is left. Throws std::runtime_error if the engine makes no progress.
  void run();
  /// The shard is lost with its plans in flight, and a new epoch begins: K and V are gone, sequences go on.
  void restart_group();

  const std::vector<LoopOutput>& outputs(RequestId request) const { return outputs_.at(request); }
  /// submit + run + the outputs.
  std::vector<LoopOutput> generate(const LoopRequest& request);
  schedule::SchedulerStats stats() const { return scheduler_.stats(); }
  kv::DeviceTierStats tier_stats() const { return tier_.stats(); }
  /// Throws unless every lock and lease has come back.
  void check_idle() const;

 private:
  void pump();
  void deliver(const schedule::TokensGenerated& tokens);
  void enter_epoch();

  LoadedModel& model_;
  LoopOptions options_;
  kv::DeviceTier tier_;
  schedule::Scheduler scheduler_;
  ShardGroup group_;
  GroupEpoch epoch_{0};
  schedule::TimePoint now_{std::chrono::seconds(1)};
  std::deque<std::size_t> in_flight_;  // rows of each plan
  std::optional<schedule::TimePoint> wake_at_;
  std::uint64_t next_request_ = 1;
  std::map<RequestId, std::vector<LoopOutput>> outputs_;
};

}  // namespace troupe::test
