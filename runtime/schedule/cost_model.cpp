#include "runtime/schedule/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::schedule {
namespace {
constexpr double kForget = 0.98;       // a step counts half after 34 more
constexpr double kPriorWeight = 1e-3;  // of a step at unit inputs
// Per scaled unit: base 2 ms, 8 decode rows 4 ms, 64 prefill tokens 64 ms, 65,536 positions read 3 ms.
constexpr std::array<double, 4> kPrior{2000.0, 4000.0, 64000.0, 3000.0};
}  // namespace

StepLoad StepLoad::with_chunk(std::uint32_t position, std::uint32_t rows) const {
  StepLoad load = *this;
  load.prefill_tokens += rows;
  load.context_read += std::uint64_t{rows} * position + std::uint64_t{rows} * (rows + 1ULL) / 2;
  return load;
}

StepLoad StepLoad::with_decode(std::uint32_t position) const {
  StepLoad load = *this;
  ++load.decode_rows;
  load.context_read += position + 1ULL;
  return load;
}

CostModel::CostModel() : costs_(kPrior) {}

CostModel::Vector CostModel::inputs(const StepLoad& load) {
  return {1.0, load.decode_rows / kScale[1], load.prefill_tokens / kScale[2], static_cast<double>(load.context_read) / kScale[3]};
}

void CostModel::observe(const StepLoad& load, std::uint32_t compute_us) {
  const Vector x = inputs(load);
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) products_[i][j] = kForget * products_[i][j] + x[i] * x[j];
    targets_[i] = kForget * targets_[i] + x[i] * compute_us;
  }
  smoothed_us_ = smoothed_us_ == 0 ? compute_us : 0.9 * smoothed_us_ + 0.1 * compute_us;
  solve();
}

/// Solves (sum x x^T + prior) c = sum x t + prior; a cost that comes out negative is fixed at zero and the rest solved again.
void CostModel::solve() {
  std::array<bool, kTerms> fixed{};
  for (std::size_t pass = 0; pass < kTerms; ++pass) {
    std::array<Vector, kTerms> a = products_;
    Vector b = targets_;
    for (std::size_t i = 0; i < kTerms; ++i) {
      a[i][i] += kPriorWeight;
      b[i] += kPriorWeight * kPrior[i];
    }
    for (std::size_t i = 0; i < kTerms; ++i) {
      if (!fixed[i]) continue;
      for (std::size_t j = 0; j < kTerms; ++j) a[i][j] = a[j][i] = i == j ? 1.0 : 0.0;
      b[i] = 0.0;
    }
    // Gaussian elimination; the matrix is symmetric and positive definite, so no pivoting is needed.
    for (std::size_t i = 0; i < kTerms; ++i)
      for (std::size_t row = i + 1; row < kTerms; ++row) {
        const double factor = a[row][i] / a[i][i];
        for (std::size_t j = i; j < kTerms; ++j) a[row][j] -= factor * a[i][j];
        b[row] -= factor * b[i];
      }
    for (std::size_t i = kTerms; i-- > 0;) {
      for (std::size_t j = i + 1; j < kTerms; ++j) b[i] -= a[i][j] * b[j];
      b[i] /= a[i][i];
    }
    bool negative = false;
    for (std::size_t i = 0; i < kTerms; ++i)
      if (b[i] < 0) fixed[i] = negative = true;
    if (negative) continue;
    costs_ = b;
    return;
  }
  for (double& cost : costs_) cost = std::max(cost, 0.0);
}

double CostModel::predict_us(const StepLoad& load) const {
  const Vector x = inputs(load);
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += costs_[i] * x[i];
  return sum;
}

std::uint32_t CostModel::largest_chunk(const StepLoad& load, std::uint32_t position, std::uint32_t max_rows, double limit_us) const {
  std::uint32_t fits = 0, above = max_rows + 1;
  while (fits + 1 < above) {
    const std::uint32_t rows = fits + (above - fits) / 2;
    (predict_us(load.with_chunk(position, rows)) <= limit_us ? fits : above) = rows;
  }
  return fits;
}

}  // namespace troupe::schedule
