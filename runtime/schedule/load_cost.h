// LoadCost: what loading blocks from one tier costs, from the order to the last rank's answer, and how many to order at once. A tier that
// was not measured yet is tried with few blocks; what it took decides of the next set, so a slow disk costs a request a few blocks' time
// and never a whole prompt's. A measured slowness is forgotten by halves: a disk that was busy is tried again.
// Owned by the Scheduler, on its thread. Invariant: a set is never expected to last longer than kMostSet, unless it is one block.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe::schedule {

class LoadCost {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::uint32_t kFirstSet = 1, kMostBlocks = 64, kGrowth = 4;
  static constexpr std::chrono::milliseconds kMostSet{20};
  static constexpr std::chrono::seconds kHalfLife{30};

  /// What a block costs on a good day; only slower measurements are forgotten towards it.
  explicit LoadCost(double usual_block_us = 0) : usual_us_(usual_block_us), block_us_(usual_block_us) {}
  /// A set without a failure.
  void observe(std::uint32_t blocks, std::chrono::steady_clock::duration took, TimePoint now);
  double block_us(TimePoint now) const;
  /// Blocks of the next set; at least 1.
  std::uint32_t set_size(TimePoint now) const;

 private:
  bool measured_lately(TimePoint now) const { return measured_at_ && now - *measured_at_ < kHalfLife; }

  double usual_us_, block_us_;
  std::uint32_t last_set_ = 0;
  std::optional<TimePoint> measured_at_;
};

}  // namespace troupe::schedule
