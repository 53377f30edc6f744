#include "runtime/schedule/lease_pool.h"

#include "messages/error.h"

#include <iterator>

namespace troupe::schedule {

void LeasePool::add(std::span<const BlockRange> ranges) {
  for (const BlockRange& range : ranges)
    for (BlockId block = range.first; block < range.first + range.count; ++block) add(block);
}

void LeasePool::add(BlockId block) { TROUPE_CHECK(blocks_.insert(block).second); }

std::vector<BlockId> LeasePool::take(std::uint32_t count, BlockId hint) {
  TROUPE_CHECK(count <= size());
  std::vector<BlockId> taken;
  taken.reserve(count);
  auto next = hint == kNone32 ? blocks_.begin() : blocks_.lower_bound(hint + 1);
  while (taken.size() < count) {
    if (next == blocks_.end()) next = blocks_.begin();
    taken.push_back(*next);
    next = blocks_.erase(next);
  }
  return taken;
}

std::vector<BlockRange> LeasePool::give_back(std::uint32_t count) {
  TROUPE_CHECK(count <= size());
  std::vector<BlockRange> ranges;
  while (count-- > 0) {
    const auto last = std::prev(blocks_.end());
    if (!ranges.empty() && ranges.back().first == *last + 1) {
      --ranges.back().first;
      ++ranges.back().count;
    } else {
      ranges.push_back({*last, 1});
    }
    blocks_.erase(last);
  }
  return ranges;
}

}  // namespace troupe::schedule
