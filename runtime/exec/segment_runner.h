// SegmentRunner: takes the rows of one step through this rank's stage: embeds them or receives them from the stage before, runs the
// segments, reduces each addend over the tensor ranks and adds it to the residual stream, and sends the rows on to the next stage. The one
// place where a model meets communication.
// A plan may cut its rows in parts (ISO: Shi et al., arXiv 2409.11155, has two): A1 B1 A2 B2 ... on the compute side, where the reduce of
// one part is under way while the others are computed. B's attention needs A's K and V of its layer, and the order gives it; it never
// needs A's reduce. One part is the same loop with nothing in between.
// Compute thread only. Polls the abort flag and the fault hook before every segment.
// Invariants: the calls to the collective follow from the plan alone, so they are equal on all ranks; where rows are cut changes no bit;
// behind the last reduce, all tensor ranks of the stage are past their last access to K and V of the step.
#pragma once
#include "runtime/base/shard_place.h"
#include "runtime/collective/collective.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/row_parts.h"
#include "runtime/exec/step_trace.h"
#include "runtime/model/model.h"
#include "runtime/model/row_buffer.h"

#include <string>
#include <vector>

namespace troupe::exec {

class SegmentRunner {
 public:
  /// `trace` may be null.
  SegmentRunner(model::Model& model, kernels::Backend& backend, const base::ShardPlace& place, FaultHook fault_hook, StepTrace* trace);
  /// From now on; null with one rank.
  void use(collective::Collective* collective) { collective_ = collective; }

  /// Residual stream of the wanted rows behind the last segment, in their order; none on ranks of other stages than the last. `tokens` are
  /// used in the first stage. Valid until the next run. Throws StepAborted, what the collective or what the hook throws; then the K and V
  /// of the rows are void.
  kernels::Rows run(std::span<const TokenId> tokens, const StepRows& rows, kernels::KvCache& kv, StepNumber step,
                    const std::atomic<bool>& abort);
  /// Of the step that ran, all waits included; the trace gets it, too. Nothing with one rank.
  collective::WireTimes end_step(StepNumber step);

 private:
  struct Part {
    const RowPart* rows = nullptr;
    std::size_t index = 0;          // 0: A, 1: B ...; the reduce it uses
    std::size_t wanted_before = 0;  // wanted rows of the parts before
    kernels::Rows hidden;           // residual stream
    bool reducing = false;
  };
  void begin(const StepRows& rows);
  void enter(Part& part, std::span<const TokenId> tokens);
  void run_segment(Part& part, std::size_t segment, kernels::KvCache& kv);
  kernels::Rows narrow(const Part& part);
  void finish_reduce(Part& part);
  void poll(StepNumber step, std::size_t segment, bool first_part, const std::atomic<bool>& abort) const;
  bool reduces() const { return collective_ != nullptr && place_.shape.tensor_ranks > 1; }
  std::string name_of(std::size_t segment, const Part& part) const;

  model::Model& model_;
  kernels::Backend& backend_;
  const base::ShardPlace place_;
  const FaultHook fault_hook_;
  StepTrace* const trace_;
  collective::Collective* collective_ = nullptr;
  model::RowBuffer hidden_, narrowed_, addend_;
  std::vector<RowPart> cut_;
  std::vector<Part> parts_;
  kernels::Rows hidden_rows_, narrowed_rows_;  // of the step
  std::vector<std::string> reduced_;           // names of the step's reduces, for the trace
};

}  // namespace troupe::exec
