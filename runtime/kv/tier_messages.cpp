#include "runtime/kv/tier_messages.h"

#include <algorithm>

namespace troupe::kv {

Match match_below(const Match& request, std::size_t run) {
  Match below;
  below.epoch = request.epoch;
  below.lock = request.lock;
  below.first_block = request.first_block + static_cast<std::uint32_t>(run);
  below.max_tokens = request.max_tokens;
  below.domain = request.domain;
  const std::size_t end = request.max_tokens / kBlockTokens;  // of the chain
  const std::size_t most = end > request.first_block ? std::min(end - request.first_block, request.keys.size()) : 0;
  for (std::size_t i = run; i < most; ++i) below.keys.push_back(request.keys[i]);
  return below;
}

void append_below(PrefixMatched& answer, const PrefixMatched& below) {
  answer.host_blocks.insert(answer.host_blocks.end(), below.host_blocks.begin(), below.host_blocks.end());
  answer.disk_blocks.insert(answer.disk_blocks.end(), below.disk_blocks.begin(), below.disk_blocks.end());
  if (below.host_tier != 0) answer.host_tier = below.host_tier;
  if (below.disk_tier != 0) answer.disk_tier = below.disk_tier;
}

std::uint32_t count_blocks(const std::vector<BlockRange>& ranges) {
  std::uint32_t blocks = 0;
  for (const BlockRange& range : ranges) blocks += range.count;
  return blocks;
}

}  // namespace troupe::kv
