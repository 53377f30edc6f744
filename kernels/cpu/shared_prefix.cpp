// See shared_prefix.h.
#include "kernels/cpu/shared_prefix.h"

#include "kernels/cpu/kernel_table.h"

#include <algorithm>
#include <cstring>

namespace troupe::kernels::cpu {
namespace {

constexpr std::size_t kPartToShare = 8;  // of the tiles of the shorter one, a part in so many

/// Leading ids that two tables have in common, at most `most`; a cache line at a time.
std::size_t common_blocks(const std::uint32_t* a, const std::uint32_t* b, std::size_t most) {
  constexpr std::size_t kLine = 16;
  std::size_t n = 0;
  while (n + kLine <= most && std::memcmp(a + n, b + n, kLine * sizeof *a) == 0) n += kLine;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}
std::size_t common_tiles(const PrefixMember& a, const PrefixMember& b) {
  return common_blocks(a.sequence->blocks, b.sequence->blocks, std::min(a.whole, b.whole));
}
bool in_order(const PrefixMember& a, const PrefixMember& b) {
  const std::size_t common = common_tiles(a, b);
  if (common == std::min(a.whole, b.whole)) return a.whole < b.whole;
  return a.sequence->blocks[common] < b.sequence->blocks[common];
}
std::uint32_t first_block(const PrefixMember& member) { return member.sequence->blocks[0]; }

/// Leaves those whose first block another one has, too.
void drop_lonely(std::vector<PrefixMember>& members) {
  std::sort(members.begin(), members.end(), [](const PrefixMember& a, const PrefixMember& b) { return first_block(a) < first_block(b); });
  std::size_t kept = 0;
  for (std::size_t i = 0, end = 0; i < members.size(); i = end) {
    for (end = i + 1; end < members.size() && first_block(members[end]) == first_block(members[i]);) ++end;
    for (std::size_t k = i; end - i > 1 && k < end; ++k) members[kept++] = members[k];
  }
  members.resize(kept);
}

}  // namespace

std::vector<PrefixMember> shared_prefixes(std::span<const SequenceRows* const> sequences) {
  std::vector<PrefixMember> members;
  members.reserve(sequences.size());
  for (const SequenceRows* s : sequences) {
    const std::size_t whole = (s->position + 1) / kBlockTokens;
    if (whole >= kTilesToShare) members.push_back({s, whole, 0});
  }
  drop_lonely(members);
  std::sort(members.begin(), members.end(), in_order);
  for (std::size_t i = 1; i < members.size(); ++i) {
    const std::size_t common = common_tiles(members[i - 1], members[i]);
    if (common >= kTilesToShare && common * kPartToShare >= std::min(members[i - 1].whole, members[i].whole)) members[i].common = common;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i].common > 0 || (i + 1 < members.size() && members[i + 1].common > 0)) members[kept++] = members[i];
  members.resize(kept);
  return members;
}

}  // namespace troupe::kernels::cpu
