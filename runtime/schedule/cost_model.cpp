#include "runtime/schedule/cost_model.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace troupe::schedule {
namespace {
// Base 2 ms, a decode row 0.5 ms, a prompt token 1 ms, 65,536 positions read 3 ms for decode rows and 1 ms for prompts.
constexpr std::array<double, 5> kPrior{2000.0, 500.0, 1000.0, 3000.0 / 65536, 1000.0 / 65536};
constexpr double kDrift = 0.08, kPriorDrift = 0.001;  // of a cost, and of its prior, a step: how fast a machine may change
constexpr double kNoise = 0.05;                       // of a step's time
constexpr double kNoiseUs = 100.0;
constexpr double kOutlier = 4.0;       // standard deviations; a step beyond is one that something held up
constexpr std::size_t kTolerated = 1;  // steps of the last 64 that may exceed the margin
constexpr double kFirstMargin = 1.1, kMostMargin = 1.5;
}  // namespace

StepLoad StepLoad::with_chunk(std::uint32_t position, std::uint32_t rows) const {
  StepLoad load = *this;
  load.prefill_tokens += rows;
  load.prefill_context += std::uint64_t{rows} * position + std::uint64_t{rows} * (rows + 1ULL) / 2;
  return load;
}

StepLoad StepLoad::with_decode(std::uint32_t position) const {
  StepLoad load = *this;
  ++load.decode_rows;
  load.decode_context += position + 1ULL;
  return load;
}

CostModel::CostModel() : costs_(kPrior), margin_(kFirstMargin) {
  for (std::size_t i = 0; i < kTerms; ++i) covariance_[i][i] = kPrior[i] * kPrior[i];
}

CostModel::Vector CostModel::inputs(const StepLoad& load) {
  return {1.0, static_cast<double>(load.decode_rows), static_cast<double>(load.prefill_tokens), static_cast<double>(load.decode_context),
          static_cast<double>(load.prefill_context)};
}

void CostModel::observe(const StepLoad& load, std::uint32_t compute_us, bool at_limit) {
  if (at_limit) note_error(compute_us / std::max(predict_us(load), 1.0));
  correct(inputs(load), compute_us);
  smoothed_us_ = smoothed_us_ == 0 ? compute_us : 0.9 * smoothed_us_ + 0.1 * compute_us;
}

void CostModel::correct(const Vector& x, double measured_us) {
  Vector gain{};  // covariance times x, until divided by the variance
  double predicted_us = 0;
  for (std::size_t i = 0; i < kTerms; ++i) {
    predicted_us += costs_[i] * x[i];
    const double drift = x[i] > 0 ? kDrift * costs_[i] + kPriorDrift * kPrior[i] : 0.0;
    covariance_[i][i] = std::min(covariance_[i][i] + drift * drift, kPrior[i] * kPrior[i]);  // never less sure than at the start
  }
  // Of the predicted time: noise of the measured one would give the lucky steps more weight.
  double variance = kNoiseUs * kNoiseUs + kNoise * kNoise * predicted_us * predicted_us;
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) gain[i] += covariance_[i][j] * x[j];
    variance += gain[i] * x[i];
  }
  const double bound = kOutlier * std::sqrt(variance);
  const double error = std::clamp(measured_us - predicted_us, -bound, bound);
  for (std::size_t i = 0; i < kTerms; ++i) {
    costs_[i] = std::max(costs_[i] + gain[i] / variance * error, 0.0);
    for (std::size_t j = 0; j < kTerms; ++j) covariance_[i][j] -= gain[i] * gain[j] / variance;
  }
}

void CostModel::note_error(double ratio) {
  ratios_[ratios_at_++ % ratios_.size()] = static_cast<float>(ratio);
  if (ratios_at_ < ratios_.size() / 4) return;  // the first steps tell of the prior
  auto sorted = ratios_;                        // zeros where nothing was measured yet
  std::nth_element(sorted.begin(), sorted.begin() + kTolerated, sorted.end(), std::greater<>());
  margin_ = std::clamp<double>(sorted[kTolerated], 1.0, kMostMargin);
}

double CostModel::predict_us(const StepLoad& load) const {
  const Vector x = inputs(load);
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += costs_[i] * x[i];
  return sum;
}

double CostModel::bound_us(const StepLoad& load) const {
  const Vector x = inputs(load);
  double variance = 0;
  for (std::size_t i = 0; i < kTerms; ++i)
    for (std::size_t j = 0; j < kTerms; ++j) variance += x[i] * covariance_[i][j] * x[j];
  return (predict_us(load) + std::sqrt(std::max(variance, 0.0))) * margin_;
}

std::uint32_t CostModel::largest_chunk(const StepLoad& load, std::uint32_t position, std::uint32_t max_rows, double limit_us) const {
  std::uint32_t fits = 0, above = max_rows + 1;
  while (fits + 1 < above) {
    const std::uint32_t rows = fits + (above - fits) / 2;
    (bound_us(load.with_chunk(position, rows)) <= limit_us ? fits : above) = rows;
  }
  return fits;
}

}  // namespace troupe::schedule
