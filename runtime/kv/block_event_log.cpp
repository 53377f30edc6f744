#include "runtime/kv/block_event_log.h"

#include <algorithm>

namespace troupe::kv {

void BlockEventLog::add(const BlockChange& change) {
  Blocks& blocks = blocks_of(change.tier);
  switch (change.kind) {
    case BlockChange::Kind::kStored: blocks.insert_or_assign(change.key, change.parent); break;
    case BlockChange::Kind::kRemoved: blocks.erase(change.key); break;
    case BlockChange::Kind::kCleared:
      if (blocks.empty()) return;  // says nothing
      blocks.clear();
      break;
  }
  events_.push_back(change);
  if (events_.size() > kept_) events_.pop_front();
  ++last_;
}

std::optional<std::vector<BlockChange>> BlockEventLog::after(std::uint64_t number, std::size_t most) const {
  if (number > last_ || last_ - number > events_.size()) return std::nullopt;
  const auto missing = static_cast<std::ptrdiff_t>(last_ - number);
  const auto first = events_.end() - missing;
  return std::vector(first, first + std::min(missing, static_cast<std::ptrdiff_t>(most)));
}

std::vector<BlockChange> BlockEventLog::snapshot() const {
  std::vector<BlockChange> all;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
    for (const auto& [key, parent] : blocks_[static_cast<std::size_t>(tier)])
      all.push_back({BlockChange::Kind::kStored, tier, key, parent});
  return all;
}

}  // namespace troupe::kv
