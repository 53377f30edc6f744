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
  static constexpr double kLeastGain = 0.05;       // of the step's time: below it is the error of the prediction
  static constexpr double kFirstGain = 0.2;        // until kFirstSteps have told what the times really are
  static constexpr int kFirstSteps = 8;
  static constexpr int kCutSteps = 64;  // then one is computed at once: only there all of the wire can be seen

  explicit OverlapPolicy(OverlapMode mode);
  /// A new group. What is not measured anew stays as it was learned.
  void enter_group(std::uint32_t ranks, const GroupSpeed& speed);
  OverlapChoice choose(std::span<const PlannedRun> runs) const;
  /// Of a step's time, in us.
  struct StepTimes {
    double busy = 0;       // something was computed
    double wire_wait = 0;  // nothing was, since bytes of a reduce were missing
  };
  void observe(std::span<const PlannedRun> runs, std::span<const std::uint32_t> cuts, const StepTimes& times);

  /// Predicted time of the step; no cuts: all rows at once. Simulates both lanes, reduce by reduce.
  double predict_us(std::span<const PlannedRun> runs, std::span<const std::uint32_t> cuts) const;
  /// Cuts that leave each part `growth` times as much to compute as the one before it. 1: later parts have fewer rows, since they attend to
  /// more. None has fewer than `least_part` rows; fewer parts than asked for where there are too few.
  std::vector<std::uint32_t> cuts_of(std::span<const PlannedRun> runs, std::size_t parts, double growth, std::uint32_t least_part) const;

 private:
  struct Part {
    double attention_us = 0, dense_us = 0;  // compute of a segment that ends with attention's reduce; of one that ends with the MLP's
    double wire_us = 0;                     // of a reduce
  };
  class RowLoads;
  /// Of reduces with these rows in all.
  double wire_us(double reduces, double rows) const { return reduces * reduce_us_ + rows * row_wire_us_; }
  /// One of `parts`.
  Part part_of(const StepLoad& load, std::size_t parts) const;
  double predict_us(const RowLoads& loads, std::span<const std::uint32_t> cuts, double slowness) const;
  std::vector<std::uint32_t> cuts_of(const RowLoads& loads, std::size_t parts, double growth, std::uint32_t least_part) const;
  double least_gain() const { return steps_ < kFirstSteps ? kFirstGain : kLeastGain; }

  OverlapMode mode_;
  bool together_ = false;  // more than one rank
  std::uint32_t reduces_ = 0;
  int steps_ = 0, cut_steps_ = 0;           // long enough to be cut: since the ranks met; since one was computed at once
  LinearFit<6> compute_;                    // of StepLoad::terms(), and of the parts behind the first
  double reduce_us_ = 1, row_wire_us_ = 1;  // as measured when the ranks met: of a reduce of no rows; of a row in all reduces
  LinearFit<1> wire_{{1}};                  // how much longer it takes than that
};

}  // namespace troupe::schedule
