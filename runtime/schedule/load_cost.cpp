#include "runtime/schedule/load_cost.h"

#include <algorithm>
#include <cmath>

namespace troupe::schedule {
namespace {
constexpr double kWeight = 0.5;  // of a new measurement: what comes next is decided by it
double us(std::chrono::steady_clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }
}  // namespace

void LoadCost::observe(std::uint32_t blocks, std::chrono::steady_clock::duration took, TimePoint now) {
  const double measured = us(took) / std::max(blocks, 1U);
  block_us_ = measured_at_ ? (1 - kWeight) * block_us(now) + kWeight * measured : measured;
  measured_at_ = now;
  last_set_ = blocks;
}

double LoadCost::block_us(TimePoint now) const {
  if (!measured_at_ || block_us_ <= usual_us_) return block_us_;
  return std::max(usual_us_, block_us_ * std::exp2(-us(now - *measured_at_) / us(kHalfLife)));
}

std::uint32_t LoadCost::set_size(TimePoint now) const {
  const std::uint32_t known = measured_lately(now) ? std::min(std::max(last_set_, 1U) * kGrowth, kMostBlocks) : kFirstSet;
  const double in_time = us(kMostSet) / std::max(block_us(now), 1.0);
  return static_cast<std::uint32_t>(std::clamp(in_time, 1.0, static_cast<double>(known)));
}

}  // namespace troupe::schedule
