// OverlapPolicy: whether the ranks of a group compute a plan's rows in parts, one's reduces under the others' compute (ISO: arXiv
// 2409.11155, with two parts), in how many and where they begin. More parts leave less uncovered where a plan begins and ends, and more
// room between a part's reduce and the segment that needs it; each of them reads all weights. Decided here for all ranks; the plan carries
// it. Both costs, of compute and of the wire, begin with what the ranks measured when they met, and follow what results tell.
// Owned by the Scheduler, on its thread. Invariant: a plan is cut only where that is predicted to take less time.
#pragma once
#include "runtime/schedule/linear_fit.h"
#include "runtime/schedule/plan_builder.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe::schedule {

enum class OverlapMode : std::uint8_t { kAuto, kOff, kAlways };
/// auto | off | always; throws std::invalid_argument.
OverlapMode overlap_mode(std::string_view name);

class OverlapPolicy {
 public:
  static constexpr std::uint32_t kLeastPart = 32;  // rows; fewer leave a product bound by its weights, which each part reads
  static constexpr double kLeastGain = 0.03;       // of the step's time: below it is the error of the prediction
  static constexpr double kFirstGain = 0.1;        // until kFirstSteps have told what the times really are
  static constexpr int kFirstSteps = 4;

  explicit OverlapPolicy(OverlapMode mode);
  /// A new group. What is not measured anew stays as it was learned.
  void enter_group(std::uint32_t ranks, const GroupSpeed& speed);
  OverlapChoice choose(std::span<const PlannedRun> runs) const;
  /// `busy_us`: of a step's time, in which something was computed; `wire_us`: in which any reduce was under way.
  void observe(std::span<const PlannedRun> runs, std::size_t parts, double busy_us, double wire_us);

  /// Predicted time of the step; no cuts: all rows at once. Simulates both lanes, reduce by reduce.
  double predict_us(std::span<const PlannedRun> runs, std::span<const std::uint32_t> cuts) const;
  /// Cuts that leave each part `growth` times as much to compute as the one before it. 1: later parts have fewer rows, since they attend to
  /// more. None has fewer than `least_part` rows;
  /// fewer parts than asked for where there are too few.
  std::vector<std::uint32_t> cuts_of(std::span<const PlannedRun> runs, std::size_t parts, double growth, std::uint32_t least_part) const;

 private:
  struct Part {
    double attention_us = 0, dense_us = 0;  // compute of a segment that ends with attention's reduce; of one that ends with the MLP's
    double wire_us = 0;                     // of a reduce
  };
  class RowLoads;
  /// One of `parts`.
  Part part_of(const StepLoad& load, std::size_t parts) const;
  double predict_us(const RowLoads& loads, std::span<const std::uint32_t> cuts, double slowness) const;
  std::vector<std::uint32_t> cuts_of(const RowLoads& loads, std::size_t parts, double growth, std::uint32_t least_part) const;
  double least_gain() const { return steps_ < kFirstSteps ? kFirstGain : kLeastGain; }

  OverlapMode mode_;
  bool together_ = false;  // more than one rank
  std::uint32_t reduces_ = 0;
  int steps_ = 0;         // with a prompt, since the ranks met
  LinearFit<6> compute_;  // of StepLoad::terms(), and of the parts behind the first
  LinearFit<2> wire_;     // of reduces, rows
};

}  // namespace troupe::schedule
