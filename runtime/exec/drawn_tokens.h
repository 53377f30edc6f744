// DrawnTokens: how the ranks that do not sample learn what was drawn. The sampling rank tells the ids of each step at its end; the others
// receive them in step order, and only when a row needs one, so that a stage never waits for a step that is still in a later stage.
// Owner: Executor; compute thread only. Invariants: every step's ids are received exactly once, in order; of a slot that changed hands
// meanwhile, the old sequence's are dropped; what is not received is bounded by the plans in flight.
#pragma once
#include "runtime/collective/collective.h"
#include "runtime/exec/sequence_table.h"
#include "runtime/plan/forward_plan.h"

#include <deque>
#include <vector>

namespace troupe::exec {

class DrawnTokens {
 public:
  void clear() { steps_.clear(); }
  /// Notes what the step will draw, here and in the sequences. Behind all other uses of a step.
  void expect(const plan::ForwardPlan& plan, SequenceTable& sequences);
  /// Receives what was drawn up to `step`, and notes it in the sequences. Throws Interrupted, PeerLost.
  void receive_until(std::uint64_t step, collective::Collective& collective, SequenceTable& sequences);

 private:
  struct Step {
    std::uint64_t number = 0;
    std::vector<SequenceSlot> slots;  // one a draw, in order of samples
  };
  std::deque<Step> steps_;
  std::vector<std::uint32_t> tokens_;
};

/// Ids of a result that were drawn, in order of samples: what the sampling rank tells the others.
void drawn(const plan::ForwardPlan& plan, const plan::ForwardResult& result, std::vector<std::uint32_t>& tokens);

}  // namespace troupe::exec
