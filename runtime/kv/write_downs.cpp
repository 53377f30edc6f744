#include "runtime/kv/write_downs.h"

#include <algorithm>
#include <utility>

namespace troupe::kv {

void WriteDowns::reset(std::uint32_t blocks) {
  blocks_ = blocks;
  waiting_ = WriteQueue(blocks);
  asked_.clear();
}

void WriteDowns::add(const WantedBlock& block, bool soon) {
  if (tier_below()) waiting_.push(block, soon);
}

std::vector<WantedBlock> WriteDowns::take(bool& soon) {
  std::vector<WantedBlock> taken;
  soon = waiting_.next_is_soon();
  while (asked_.size() < most_asked() && waiting_.size() > 0 && waiting_.next_is_soon() == soon) {
    const WantedBlock next = *waiting_.pop();
    if (find(next.key) != asked_.end()) continue;  // forgotten since it was asked for, and here again: both would get one answer
    taken.push_back(next);
    asked_.push_back(next);
  }
  return taken;
}

std::vector<WantedBlock>::const_iterator WriteDowns::find(const BlockKey& key) const {
  return std::find_if(asked_.begin(), asked_.end(), [&](const WantedBlock& block) { return block.key == key; });
}

std::optional<BlockId> WriteDowns::answered(const BlockKey& key) {
  const auto at = find(key);
  if (at == asked_.end()) return std::nullopt;
  const BlockId source = at->source;
  asked_.erase(at);
  return source;
}

std::vector<WantedBlock> WriteDowns::take_back() { return std::exchange(asked_, {}); }

}  // namespace troupe::kv
