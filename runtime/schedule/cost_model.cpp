#include "runtime/schedule/cost_model.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace troupe::schedule {
namespace {
// Base 2 ms, a decode row 0.5 ms, a prompt token 1 ms, 65,536 positions read 3 ms for decode rows and 1 ms for prompts.
constexpr std::array<double, 5> kPrior{2000.0, 500.0, 1000.0, 3000.0 / 65536, 1000.0 / 65536};
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

StepLoad StepLoad::without(const StepLoad& first) const {
  return {decode_rows - first.decode_rows, prefill_tokens - first.prefill_tokens, decode_context - first.decode_context,
          prefill_context - first.prefill_context};
}

std::array<double, 5> StepLoad::terms() const {
  return {1.0, static_cast<double>(decode_rows), static_cast<double>(prefill_tokens), static_cast<double>(decode_context),
          static_cast<double>(prefill_context)};
}

CostModel::CostModel() : fit_(kPrior), margin_(kFirstMargin) {}

void CostModel::observe(const StepLoad& load, double step_us, bool at_limit) {
  if (at_limit) note_error(step_us / std::max(predict_us(load), 1.0));
  fit_.correct(load.terms(), step_us);
  smoothed_us_ = smoothed_us_ == 0 ? step_us : 0.9 * smoothed_us_ + 0.1 * step_us;
}

void CostModel::note_error(double ratio) {
  ratios_[ratios_at_++ % ratios_.size()] = static_cast<float>(ratio);
  if (ratios_at_ < ratios_.size() / 4) return;  // the first steps tell of the prior
  auto sorted = ratios_;                        // zeros where nothing was measured yet
  std::nth_element(sorted.begin(), sorted.begin() + kTolerated, sorted.end(), std::greater<>());
  margin_ = std::clamp<double>(sorted[kTolerated], 1.0, kMostMargin);
}

double CostModel::bound_us(const StepLoad& load) const {
  return (predict_us(load) + std::sqrt(std::max(fit_.variance(load.terms()), 0.0))) * margin_;
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
