// LeasePool: the free blocks that the scheduler has on lease, handed out with neighbours together where it can.
// Owned by the Scheduler, on its thread. Invariant: a block is here, in one sequence, or at the tier; never in two places.
#pragma once
#include "messages/ids.h"

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace troupe::schedule {

class LeasePool {
 public:
  void add(std::span<const BlockRange> ranges);
  void add(BlockId block);
  /// `count` blocks, those right behind `hint` first if free (kNone32: no hint). Precondition: count <= size().
  std::vector<BlockId> take(std::uint32_t count, BlockId hint = kNone32);
  /// Takes `count` blocks out, the highest ids, as ranges.
  std::vector<BlockRange> give_back(std::uint32_t count);
  std::uint32_t size() const { return static_cast<std::uint32_t>(blocks_.size()); }
  bool empty() const { return blocks_.empty(); }
  void clear() { blocks_.clear(); }

 private:
  std::set<BlockId> blocks_;
};

}  // namespace troupe::schedule
