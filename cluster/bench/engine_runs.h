// EngineRuns: prefill and decode of a shard alone, with ready-made plans such as a scheduler would send.
// Thread: one caller; the engine runs on a thread of its own (as a shard's does), since that thread is pinned and what the caller
// starts later must not inherit it.
// Invariant: every run begins in a new epoch. K and V of a context are not computed anew each time: blocks are filled once, with
// copies of a real prompt's, and times do not depend on their values.
#pragma once
#include "actors/compute.h"
#include "cluster/bench/measured_engine.h"
#include "messages/ids.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

/// Ordinary ids of any vocabulary of 256 and more; different for each sequence.
std::vector<TokenId> bench_prompt(std::uint32_t sequence, std::uint32_t length);
std::uint32_t blocks_for(std::uint32_t positions);

class EngineRuns {
 public:
  EngineRuns(MeasuredEngine& engine, const std::atomic<bool>& stop) : engine_(engine), stop_(stop) {}
  /// Why so many sequences of so many positions do not fit the model or its cache; empty if they do.
  std::string misfit(std::uint32_t sequences, std::uint32_t positions) const;
  /// Seconds of one prompt in one step. nullopt: stopped.
  std::optional<double> prefill(std::uint32_t tokens);
  /// Seconds of `steps` steps in which `batch` sequences decode that hold `context` tokens (at least 1) when time starts.
  std::optional<double> decode(std::uint32_t batch, std::uint32_t context, std::uint32_t steps);
  /// Does all of `work`, which may drive the engine, on the engine's thread, and returns when it is done. What it throws is thrown here.
  void on_engine_thread(const std::function<void()>& work);
  GroupEpoch begin_epoch();  // on the engine's thread
  MeasuredEngine& engine() { return engine_; }
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  plan::ForwardPlan next_plan();
  void fill_blocks(std::uint32_t count);
  std::optional<double> decode_here(std::uint32_t batch, std::uint32_t context, std::uint32_t steps);

  MeasuredEngine& engine_;
  const std::atomic<bool>& stop_;
  GroupEpoch epoch_{1U << 30};  // far from those of a node that borrows the engine
  StepNumber step_{0};
  std::uint32_t filled_ = 0;  // blocks that hold K and V of something
  actors::ComputeThread thread_;
};

}  // namespace troupe::cluster::bench
