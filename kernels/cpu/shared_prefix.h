// Which sequences of a batch begin with the same blocks: read off their block tables, since a block that two tables name is one block.
// Pure function of the batch; the caller's thread.
#pragma once
#include "kernels/backend.h"

#include <span>
#include <vector>

namespace troupe::kernels::cpu {

/// A sequence that shares its first blocks with a neighbour in the order of block tables.
struct PrefixMember {
  const SequenceRows* sequence = nullptr;
  std::size_t whole = 0;   // tiles that all its rows see to the end: only these are shared
  std::size_t common = 0;  // leading tiles in common with the member before; 0: a group begins here
};

/// Groups of two members and more, one behind the other, each in the order of its tables: any two members of a group share as many tiles
/// as the smallest `common` between them. Neighbours that share fewer than kTilesToShare tiles, or little of what they read, part.
/// `sequences` have rows. Where no two begin with the same block, that is all that is looked at.
std::vector<PrefixMember> shared_prefixes(std::span<const SequenceRows* const> sequences);
inline constexpr std::size_t kTilesToShare = 4;

}  // namespace troupe::kernels::cpu
