#include "runtime/kv/block_pool.h"

#include "messages/error.h"

#include <algorithm>
#include <iterator>

namespace troupe::kv {

void BlockPool::reset(std::uint32_t blocks) {
  states_.assign(blocks, BlockState::kFree);
  std::fill(std::begin(counts_), std::end(counts_), 0U);
  counts_[static_cast<std::size_t>(BlockState::kFree)] = blocks;
  free_by_first_.clear();
  free_by_length_.clear();
  if (blocks > 0) {
    free_by_first_.emplace(0, blocks);
    free_by_length_.emplace(blocks, 0);
  }
}

std::vector<BlockRange> BlockPool::lease(std::uint32_t wanted) {
  std::vector<BlockRange> ranges;
  while (wanted > 0 && !free_by_length_.empty()) {
    auto fit = free_by_length_.lower_bound({wanted, 0});
    if (fit == free_by_length_.end()) fit = std::prev(fit);  // none holds them all: the largest
    const BlockRange range = take(free_by_first_.find(fit->second), std::min(wanted, fit->first));
    for (BlockId block = range.first; block < range.first + range.count; ++block) states_[block] = BlockState::kLeased;
    counts_[static_cast<std::size_t>(BlockState::kFree)] -= range.count;
    counts_[static_cast<std::size_t>(BlockState::kLeased)] += range.count;
    wanted -= range.count;
    ranges.push_back(range);
  }
  return ranges;
}

void BlockPool::change(BlockId block, BlockState from, BlockState to) {
  TROUPE_CHECK(block < states_.size() && states_[block] == from);
  TROUPE_CHECK(from != BlockState::kFree);  // free blocks leave by lease() alone
  states_[block] = to;
  --counts_[static_cast<std::size_t>(from)];
  ++counts_[static_cast<std::size_t>(to)];
  if (to == BlockState::kFree) add_free(block);
}

BlockState BlockPool::state(BlockId block) const {
  TROUPE_CHECK(block < states_.size());
  return states_[block];
}

void BlockPool::add_free(BlockId block) {
  BlockId first = block;
  std::uint32_t length = 1;
  auto next = free_by_first_.lower_bound(block);
  if (next != free_by_first_.end() && next->first == block + 1) {
    length += next->second;
    const auto joined = next++;
    erase_range(joined);
  }
  if (next != free_by_first_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == block) {
      first = previous->first;
      length += previous->second;
      erase_range(previous);
    }
  }
  free_by_first_.emplace(first, length);
  free_by_length_.emplace(length, first);
}

void BlockPool::erase_range(std::map<BlockId, std::uint32_t>::iterator range) {
  free_by_length_.erase({range->second, range->first});
  free_by_first_.erase(range);
}

BlockRange BlockPool::take(std::map<BlockId, std::uint32_t>::iterator range, std::uint32_t count) {
  const auto [first, length] = *range;
  erase_range(range);
  if (length > count) {
    free_by_first_.emplace(first + count, length - count);
    free_by_length_.emplace(length - count, first + count);
  }
  return {first, count};
}

void BlockPool::check_invariants() const {
  std::uint32_t counts[4] = {};
  for (BlockState state : states_) ++counts[static_cast<std::size_t>(state)];
  for (std::size_t i = 0; i < 4; ++i) TROUPE_CHECK(counts[i] == counts_[i]);
  std::uint32_t free = 0;
  BlockId end = 0;
  bool any = false;
  for (const auto& [first, length] : free_by_first_) {
    TROUPE_CHECK(length > 0 && (!any || first > end));
    TROUPE_CHECK(free_by_length_.count({length, first}) == 1);
    for (BlockId block = first; block < first + length; ++block) TROUPE_CHECK(states_[block] == BlockState::kFree);
    free += length;
    end = first + length;
    any = true;
  }
  TROUPE_CHECK(free == count(BlockState::kFree) && free_by_length_.size() == free_by_first_.size());
}

}  // namespace troupe::kv
