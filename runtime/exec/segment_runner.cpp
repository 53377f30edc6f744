#include "runtime/exec/segment_runner.h"

namespace troupe::exec {

SegmentRunner::SegmentRunner(model::Model& model, FaultHook fault_hook) : model_(model), fault_hook_(std::move(fault_hook)) {}

void SegmentRunner::run(const model::Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, StepNumber step,
                        const std::atomic<bool>& abort) {
  for (std::size_t segment = 0; segment < model_.num_segments(); ++segment) {
    poll(step, segment, abort);
    // With one rank the addend is the sum, so it goes straight to the residual stream. With more, it is stored apart, and the reduce
    // over ranks belongs here.
    model_.run_segment(segment, chunk, hidden, kv, hidden, kernels::Output::kAdd);
  }
}

void SegmentRunner::poll(StepNumber step, std::size_t segment, const std::atomic<bool>& abort) const {
  if (fault_hook_) fault_hook_(step.value, segment, abort);
  if (abort.load(std::memory_order_relaxed)) throw StepAborted();
}

}  // namespace troupe::exec
