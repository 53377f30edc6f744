// CostModel: predicted time of a step, t = base + decode rows + prefill tokens + positions read by each, each times a fitted cost
// (linear_fit.h). The prior is pessimistic and uncertain: the first measured steps replace it.
// Owned by the Scheduler, on its thread. Invariant: time never falls with a larger chunk.
#pragma once
#include "runtime/schedule/linear_fit.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace troupe::schedule {

/// What a step's time depends on.
struct StepLoad {
  std::uint32_t decode_rows = 0;
  std::uint32_t prefill_tokens = 0;
  std::uint64_t decode_context = 0;   // positions that the decode rows attend to, summed
  std::uint64_t prefill_context = 0;  // likewise of prompt tokens; cheaper, since a tile of keys serves many rows
  /// With a chunk of `rows` positions from `position` on.
  StepLoad with_chunk(std::uint32_t position, std::uint32_t rows) const;
  StepLoad with_decode(std::uint32_t position) const;
  /// Of the rows behind `first`, which it begins with.
  StepLoad without(const StepLoad& first) const;
  /// One (the step itself) and the four above, as inputs of a fit.
  std::array<double, 5> terms() const;
};

class CostModel {
 public:
  CostModel();
  /// `at_limit`: the step was made as large as its limit let it be; the margin learns from such steps alone, since what holds up a short
  /// one says little of how far a long one misses.
  void observe(const StepLoad& load, double step_us, bool at_limit);
  double predict_us(const StepLoad& load) const { return fit_.predict(load.terms()); }
  /// What nearly all such steps stay below: the prediction, one standard deviation of it more (much only for what was hardly measured yet,
  /// as the end of a first long prompt), and the margin.
  double bound_us(const StepLoad& load) const;
  /// Nearly all steps at their limit took no longer than predict_us() times this; >= 1.
  double margin() const { return margin_; }
  /// Largest chunk (0...max_rows) from `position` on with which bound_us() of the step stays within `limit_us`.
  std::uint32_t largest_chunk(const StepLoad& load, std::uint32_t position, std::uint32_t max_rows, double limit_us) const;
  double prefill_token_us() const { return fit_.costs()[2]; }
  double smoothed_step_us() const { return smoothed_us_; }

 private:
  void note_error(double ratio);

  LinearFit<5> fit_;
  std::array<float, 64> ratios_{};  // measured over predicted, of the last steps at their limit
  std::size_t ratios_at_ = 0;
  double margin_;
  double smoothed_us_ = 0;
};

}  // namespace troupe::schedule
