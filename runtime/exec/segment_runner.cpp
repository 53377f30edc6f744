#include "runtime/exec/segment_runner.h"

namespace troupe::exec {

SegmentRunner::SegmentRunner(model::Model& model, kernels::Backend& backend, FaultHook fault_hook)
    : model_(model), backend_(backend), fault_hook_(std::move(fault_hook)), addend_(model.config().hidden) {}

void SegmentRunner::run(const model::Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, StepNumber step,
                        const std::atomic<bool>& abort) {
  const kernels::Rows addend = addend_.rows(chunk.rows);
  for (std::size_t segment = 0; segment < model_.num_segments(); ++segment) {
    poll(step, segment, abort);
    model_.run_segment(segment, chunk, hidden, kv, addend);
    // With one rank the addend is the sum: the reduce over ranks belongs here.
    backend_.add(hidden, addend);
  }
}

void SegmentRunner::poll(StepNumber step, std::size_t segment, const std::atomic<bool>& abort) const {
  if (fault_hook_) fault_hook_(step.value, segment, abort);
  if (abort.load(std::memory_order_relaxed)) throw StepAborted();
}

}  // namespace troupe::exec
