// BlockPool: which blocks of a tier are free, leased out, in the tree, or private copies under a lock. Hands out ids as contiguously
// as it can: scattered small blocks cost attention a factor of 3-4. Owned by DeviceTier, on its thread.
// Invariant: every block is in exactly one state; the free ranges are disjoint and never touch each other.
#pragma once
#include "messages/ids.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace troupe::kv {

enum class BlockState : std::uint8_t { kFree, kLeased, kCached, kShadow };

class BlockPool {
 public:
  void reset(std::uint32_t blocks);
  /// Takes up to `wanted` free blocks: the smallest free range that holds them all, else the largest ranges. Fewer than wanted is no error.
  std::vector<BlockRange> lease(std::uint32_t wanted);
  /// Moves a block to another state; to kFree it can be leased again. Throws InvariantViolation if it is not in state `from`.
  void change(BlockId block, BlockState from, BlockState to);
  BlockState state(BlockId block) const;
  std::uint32_t total() const { return static_cast<std::uint32_t>(states_.size()); }
  std::uint32_t count(BlockState state) const { return counts_[static_cast<std::size_t>(state)]; }
  void check_invariants() const;

 private:
  void add_free(BlockId block);
  void erase_range(std::map<BlockId, std::uint32_t>::iterator range);
  BlockRange take(std::map<BlockId, std::uint32_t>::iterator range, std::uint32_t count);

  std::vector<BlockState> states_;
  std::uint32_t counts_[4] = {};
  std::map<BlockId, std::uint32_t> free_by_first_;              // first id -> length
  std::set<std::pair<std::uint32_t, BlockId>> free_by_length_;  // (length, first id)
};

}  // namespace troupe::kv
