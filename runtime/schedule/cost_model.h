// CostModel: predicted compute time of a step, t = base + decode rows + prefill tokens + context read, each times a fitted cost.
// Ridge regression over exponentially forgotten steps; the prior is weak and pessimistic, so the first measured steps replace it.
// Owned by the Scheduler, on its thread. Invariant: every cost is >= 0, so time never falls with a larger chunk.
#pragma once
#include <array>
#include <cstdint>

namespace troupe::schedule {

/// What a step's time depends on.
struct StepLoad {
  std::uint32_t decode_rows = 0;
  std::uint32_t prefill_tokens = 0;
  std::uint64_t context_read = 0;  // positions that all rows attend to, summed
  /// With a chunk of `rows` positions from `position` on.
  StepLoad with_chunk(std::uint32_t position, std::uint32_t rows) const;
  StepLoad with_decode(std::uint32_t position) const;
};

class CostModel {
 public:
  CostModel();
  void observe(const StepLoad& load, std::uint32_t compute_us);
  double predict_us(const StepLoad& load) const;
  /// Largest chunk (0...max_rows) from `position` on that keeps the step within `limit_us`.
  std::uint32_t largest_chunk(const StepLoad& load, std::uint32_t position, std::uint32_t max_rows, double limit_us) const;
  double prefill_token_us() const { return costs_[2] / kScale[2]; }
  double smoothed_step_us() const { return smoothed_us_; }

 private:
  static constexpr std::size_t kTerms = 4;
  // Brings the four inputs to a like size, which keeps the equations well conditioned.
  static constexpr std::array<double, kTerms> kScale{1.0, 8.0, 64.0, 65536.0};
  using Vector = std::array<double, kTerms>;
  static Vector inputs(const StepLoad& load);
  void solve();

  std::array<Vector, kTerms> products_{};  // sum of x x^T, forgotten exponentially
  Vector targets_{};                       // sum of x t
  Vector costs_{};                         // us for kScale[i] units of input i
  double smoothed_us_ = 0;
};

}  // namespace troupe::schedule
