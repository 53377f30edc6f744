// OverlapPolicy: whether the ranks of a group compute a plan's rows in two parts, one's reduces under the other's compute (ISO: arXiv
// 2409.11155), and at which row the second part begins. Decided here for all ranks; the plan carries it. Both costs, of compute and of
// the wire, begin with what the ranks measured when they met, and follow what results tell.
// Owned by the Scheduler, on its thread. Invariant: a plan is split only where that is predicted to take less time.
#pragma once
#include "runtime/schedule/linear_fit.h"
#include "runtime/schedule/plan_builder.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::schedule {

enum class OverlapMode : std::uint8_t { kAuto, kOff, kAlways };
/// auto | off | always; throws std::invalid_argument.
OverlapMode overlap_mode(std::string_view name);

struct OverlapChoice {
  std::uint32_t split = 0;  // ForwardPlan::split
  double share = 1;         // predicted time, of that of the same rows all at once; <= 1
};

class OverlapPolicy {
 public:
  static constexpr std::uint32_t kLeastPart = 32;  // rows; fewer leave a product bound by its weights, which each part reads
  static constexpr double kLeastGain = 0.03;       // of the step's time: below it is the error of the prediction
  static constexpr double kSplitCost = 0.03;       // of compute: smaller products. That each part reads all weights is in the fit's base

  explicit OverlapPolicy(OverlapMode mode);
  /// A new group. What is not measured anew stays as it was learned.
  void enter_group(std::uint32_t ranks, const GroupSpeed& speed);
  OverlapChoice choose(std::span<const PlannedRun> runs) const;
  /// `busy_us`: of a step's time, in which something was computed; `wire_us`: in which any reduce was under way.
  void observe(std::span<const PlannedRun> runs, std::uint32_t split, double busy_us, double wire_us);

  /// Predicted time of the step; split 0: all rows at once. Simulates both lanes, reduce by reduce.
  double predict_us(std::span<const PlannedRun> runs, std::uint32_t split) const;
  /// The row that leaves both parts as much to compute: behind the middle, since the second part attends to more.
  std::uint32_t balanced_split(std::span<const PlannedRun> runs) const;

 private:
  struct Part {
    double attention_us = 0, dense_us = 0;  // compute of a segment that ends with attention's reduce; of one that ends with the MLP's
    double wire_us = 0;                     // of a reduce
  };
  Part part_of(const StepLoad& load) const;

  OverlapMode mode_;
  bool together_ = false;  // more than one rank
  std::uint32_t reduces_ = 0;
  LinearFit<5> compute_;  // of StepLoad::terms()
  LinearFit<2> wire_;     // of reduces, rows
};

}  // namespace troupe::schedule
