// The measured runs of `troupe bench`: each builds the plans that a scheduler would send and times the shard.
// Thread: the caller's. Invariant: every run begins in a new epoch, so no run sees blocks of another.
#pragma once
#include "cluster/bench_command.h"
#include "messages/ids.h"

#include <cstdint>
#include <vector>

namespace troupe::cluster {

/// Of one measurement.
struct BenchFigure {
  std::string name;            // "prefill", "decode"
  std::uint32_t batch = 1;     // sequences
  std::uint32_t rows = 0;      // a step
  double best_per_second = 0;  // tokens
  double median_per_second = 0;
  double step_ms = 0;  // median
};
/// What a scheduled step costs beside the shard's own time.
struct StepFigure {
  std::uint32_t batch = 1;
  double step_ms = 0;
  double outside_percent = 0;  // of a step's time, outside the shard
};

class BenchRuns {
 public:
  BenchRuns(exec::ShardEngine& engine, const exec::ShardFacts& facts, const BenchOptions& options)
      : engine_(engine), facts_(facts), options_(options) {}
  BenchFigure prefill();
  BenchFigure decode(std::uint32_t batch);
  /// The same decoding driven by Scheduler and DeviceTier.
  StepFigure scheduled(std::uint32_t batch);
  /// Empty, or why `options` do not fit the model and its cache.
  std::string misfit() const;

 private:
  plan::ForwardPlan next_plan();
  void begin_epoch();
  void add_sequence(plan::ForwardPlan& plan, std::uint32_t slot, std::uint32_t prompt, std::uint32_t positions) const;
  std::uint32_t blocks_for(std::uint32_t positions) const { return (positions + kBlockTokens - 1) / kBlockTokens; }

  exec::ShardEngine& engine_;
  const exec::ShardFacts& facts_;
  const BenchOptions& options_;
  GroupEpoch epoch_{0};
  StepNumber step_{0};
};

}  // namespace troupe::cluster
