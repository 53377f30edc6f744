// MeasuredEngine: a shard engine whose runs can be recorded: when each began and ended, and what its kernels took. The suites drive it
// directly; a node in this process can borrow it, so that one packed model serves all measurements.
// Thread: one run at a time, from whichever thread has the engine at that moment; records are behind a mutex.
#pragma once
#include "cluster/bench/timed_backend.h"
#include "runtime/exec/shard_engine.h"
#include "runtime/model/model.h"

#include <memory>
#include <mutex>
#include <vector>

namespace troupe::cluster::bench {

struct RunRecord {
  double start = 0, end = 0;  // seconds
  std::uint32_t rows = 0, sequences = 0;
  OpTotals ops{};
  double before_kernels = 0, behind_kernels = 0;  // seconds of the executor before the first and behind the last op
};

class MeasuredEngine {
 public:
  /// Loads and packs. Errors as ShardEngine::load.
  static Result<std::unique_ptr<MeasuredEngine>> load(const exec::ShardSpec& spec,
                                                      const std::function<void(std::size_t done, std::size_t total)>& progress);
  const exec::ShardFacts& facts() const { return facts_; }
  const model::ModelConfig& config() const { return config_; }
  kernels::Backend& backend() { return *backend_; }

  Result<exec::EpochFacts> enter_epoch(const exec::EpochEntry& entry, const std::atomic<bool>& abort) {
    return engine_->enter_epoch(entry, abort);
  }
  plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort);
  /// Drops old records, and records runs from now on or no longer. No run may be under way.
  void record(bool on);
  std::vector<RunRecord> take_records();
  /// An engine whose load() is done at once and whose runs are runs of this one. This one must outlive it. After a run of somebody
  /// else its group's epoch is lost, and the node that has borrowed it begins another, with an empty cache: as it must, since blocks
  /// were overwritten.
  std::unique_ptr<exec::ShardEngine> borrow();

 private:
  MeasuredEngine() = default;
  std::unique_ptr<exec::ShardEngine> engine_;
  TimedBackend* backend_ = nullptr;  // engine_'s
  exec::ShardFacts facts_;
  model::ModelConfig config_;
  std::mutex mutex_;  // the two below
  bool recording_ = false;
  std::vector<RunRecord> records_;
};

}  // namespace troupe::cluster::bench
