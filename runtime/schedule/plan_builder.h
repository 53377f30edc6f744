// PlanBuilder: writes one ForwardPlan and the note of it that the scheduler needs when the result comes.
// Used on the scheduler's thread while it plans. Invariant: runs, tokens and samples agree; decode runs come before prefill runs.
#pragma once
#include "runtime/plan/forward_plan.h"
#include "runtime/schedule/cost_model.h"
#include "runtime/schedule/sequence.h"

#include <utility>
#include <vector>

namespace troupe::schedule {

struct PlannedRun {
  SequenceNumber sequence = 0;
  std::uint32_t position = 0;  // of the first row
  std::uint32_t rows = 0;
  bool decode = false;
};
struct PlannedSample {
  SequenceNumber sequence = 0;
  std::uint32_t score_position = kNone32;  // kNone32 = a draw
  std::uint8_t top_logprobs = plan::kNoLogprobs;
};
/// How a plan's rows are computed.
struct OverlapChoice {
  std::vector<std::uint32_t> cuts;  // ForwardPlan::cuts
  double share = 1;                 // predicted time, of that of the same rows all at once; <= 1
};
/// A plan without a result yet.
struct PlanInFlight {
  StepNumber step;
  std::vector<PlannedRun> runs;
  std::vector<PlannedSample> samples;
  std::vector<LockId> tail_locks;  // of copies in this plan; released with its result
  StepLoad load;
  double limit_us = 0;    // stall budget that bound it; 0 = none
  bool at_limit = false;  // the stall budget cut a chunk of it
  double ahead_us = 0;    // predicted time in one stage of the longest plan in flight when this one was sent
  OverlapChoice overlap;
};

class PlanBuilder {
 public:
  PlanBuilder(GroupEpoch epoch, StepNumber step);
  void drop(std::vector<SequenceSlot> slots);
  void add(const Sequence& sequence, SequenceSlot slot);
  void append_block(SequenceSlot slot, BlockId block);
  void copy(const PendingCopy& copy, BlockId target);
  /// One row at the next position; the token is known, or the one drawn last.
  void decode_row(Sequence& sequence);
  /// `rows` known tokens from sequence.planned on, with the scores that they yield.
  void prefill_rows(Sequence& sequence, std::uint32_t rows);
  /// A draw for `sequence` at the last row added.
  void draw(Sequence& sequence);

  /// Computed in parts that take turns.
  void overlap(OverlapChoice choice);

  std::uint32_t rows() const { return static_cast<std::uint32_t>(plan_.tokens.size()); }
  StepNumber step() const { return plan_.step; }
  PlanInFlight& note() { return note_; }
  plan::ForwardPlan take_plan() { return std::move(plan_); }

 private:
  void name(Sequence& sequence) { sequence.last_step = sequence.last_row_step = plan_.step; }
  plan::ForwardPlan plan_;
  PlanInFlight note_;
};

}  // namespace troupe::schedule
