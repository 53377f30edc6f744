// Executor: runs ForwardPlans on one rank: tables of sequences, the batch, the segments of the rank's stage, sampling. Knows bytes, never
// queues. With more ranks they meet in a Collective, which lasts for an epoch.
// Thread: the shard's compute thread. Between segments it polls the abort flag and the fault hook.
#pragma once
#include "kernels/backend.h"
#include "runtime/base/shard_place.h"
#include "runtime/model/model.h"
#include "runtime/plan/forward_plan.h"

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>

namespace troupe::collective {
class Collective;
}

namespace troupe::exec {

class StepTrace;

/// The abort flag was seen: the step has no result and its epoch is over.
struct StepAborted : std::runtime_error {
  StepAborted() : std::runtime_error("step aborted") {}
};
/// A plan does not continue the last one (a gap in steps, an unknown slot): the shard asks for a resync.
struct PlanGap : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Called between segments with (step, segment); may throw or stall. Tests and --fault only.
using FaultHook = std::function<void(std::uint64_t step, std::size_t segment, const std::atomic<bool>& abort)>;

struct ExecutorOptions {
  std::size_t device_blocks = 0;
  kernels::KvFormat kv_format = kernels::KvFormat::kInt8;
  FaultHook fault_hook = {};
  bool poison_free_blocks = false;  // tests
  base::ShardPlace place = {};      // whose slice the model is
  StepTrace* trace = nullptr;
};

class Executor {
 public:
  Executor(model::Model& model, kernels::Backend& backend, ExecutorOptions options);
  ~Executor();
  /// Empties all tables; the next plan must be step 1 of `epoch`. K and V bytes need no clearing. `collective`: of the epoch, until it is
  /// left; null with one rank.
  void enter_epoch(GroupEpoch epoch, collective::Collective* collective = nullptr);
  /// No plan runs until the next one.
  void leave_epoch();
  /// On ranks that do not sample the result is empty but for its times. Throws StepAborted, PlanGap, collective::PeerLost, and what the
  /// fault hook throws.
  plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort);
  std::size_t kv_bytes() const;
  /// Of this rank, for the store that moves its blocks between tiers.
  kernels::KvCache& kv_cache();
  /// `about_to_write` hears of each block before a plan writes its first position, on the compute thread. Before the first plan.
  void watch_writes(std::function<void(BlockId)> about_to_write);
  /// A load is about to fill the block, which must be there. Any thread.
  void will_load(BlockId block);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::exec
