// SegmentRunner: takes the rows of one step through all segments of a model: run the segment, reduce its addend over the ranks,
// add it to the residual stream. The one place where a model meets communication; a runner that overlaps two chunks of a
// sequence (compute of one, reduce of the other) stands beside it with the same run().
// Compute thread only. Polls the abort flag and the fault hook before every segment.
#pragma once
#include "runtime/exec/executor.h"
#include "runtime/model/model.h"
#include "runtime/model/row_buffer.h"

namespace troupe::exec {

class SegmentRunner {
 public:
  SegmentRunner(model::Model& model, FaultHook fault_hook);
  /// hidden [rows, width of the model]: embeddings in. Returns the residual stream behind the last segment: of the wanted rows alone, where
  /// the model narrows. Throws StepAborted, or what the hook throws; then the contents of hidden and of the rows' K and V are void.
  kernels::Rows run(const model::Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, StepNumber step, const std::atomic<bool>& abort);

 private:
  void poll(StepNumber step, std::size_t segment, const std::atomic<bool>& abort) const;

  model::Model& model_;
  FaultHook fault_hook_;
  model::RowBuffer narrowed_;  // the residual stream of wanted rows
};

}  // namespace troupe::exec
