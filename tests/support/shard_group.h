// ShardGroup: the executors of all ranks of a replica in one process: each rank on a thread of its own, over the loopback transport, driven
// by the same plans. With one rank: on the calling thread. For tests that ask which tokens come out of more than one rank.
// One thread drives it. A failure of a rank ends the epoch for all, as the supervisor would end it.
#pragma once
#include "runtime/exec/executor.h"
#include "tests/support/load_model.h"

#include <functional>
#include <memory>

namespace troupe::test {

struct ShardGroupOptions {
  std::size_t blocks = 64;
  kernels::KvFormat kv_format = kernels::KvFormat::kInt8;
  bool poison = false;
  std::function<exec::FaultHook(std::size_t rank)> fault_hook;  // may be empty
};

class ShardGroup {
 public:
  /// Several groups may use a model, one after the other.
  ShardGroup(LoadedModel& model, const ShardGroupOptions& options);
  ~ShardGroup();
  /// Leaves the one before, whatever its ranks are at. Throws std::runtime_error if the ranks do not meet.
  void enter_epoch(GroupEpoch epoch);
  /// Gives the plan to all ranks. More may follow at once.
  void post(const plan::ForwardPlan& plan);
  /// The next result of the sampling rank; the others may still be busy with the step. Throws what any rank threw first; then only
  /// enter_epoch() may follow.
  plan::ForwardResult result();
  plan::ForwardResult run(const plan::ForwardPlan& plan) {
    post(plan);
    return result();
  }
  /// Until all ranks have run all they were given; throws likewise.
  void wait_until_idle();
  /// Ends the epoch, from any thread.
  void abort();
  exec::Executor& executor(std::size_t rank = 0);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::test
