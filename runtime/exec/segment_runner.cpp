#include "runtime/exec/segment_runner.h"

#include <algorithm>

namespace troupe::exec {

SegmentRunner::SegmentRunner(model::Model& model, FaultHook fault_hook)
    : model_(model), fault_hook_(std::move(fault_hook)), narrowed_(model.config().hidden) {}

kernels::Rows SegmentRunner::run(const model::Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, StepNumber step,
                                 const std::atomic<bool>& abort) {
  kernels::Rows residual = hidden;
  for (std::size_t segment = 0; segment < model_.num_segments(); ++segment) {
    poll(step, segment, abort);
    const kernels::Rows rows = residual;
    if (model_.narrows(segment) && chunk.wanted && chunk.wanted->size() < chunk.rows) {
      residual = narrowed_.rows(chunk.wanted->size());
      for (std::size_t i = 0; i < residual.count; ++i) std::copy_n(rows.row((*chunk.wanted)[i]), rows.width, residual.row(i));
    }
    // With one rank the addend is the sum, so it goes straight to the residual stream. With more, it is stored apart, and the reduce
    // over ranks belongs here.
    model_.run_segment(segment, chunk, rows, kv, residual, kernels::Output::kAdd);
    if (residual.count == 0) break;
  }
  return residual;
}

void SegmentRunner::poll(StepNumber step, std::size_t segment, const std::atomic<bool>& abort) const {
  if (fault_hook_) fault_hook_(step.value, segment, abort);
  if (abort.load(std::memory_order_relaxed)) throw StepAborted();
}

}  // namespace troupe::exec
