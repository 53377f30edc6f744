#include "runtime/kv/pin_table.h"

#include "messages/error_reasons.h"

namespace troupe::kv {
namespace {

Error too_many(const std::string& what, std::size_t wanted, std::size_t held, std::size_t limit) {
  return make_error(ErrorClass::kOverloaded, ErrorReason::kNotEnoughBlocks,
                    "too much is pinned: " + std::to_string(held) + " " + what + " are, and " + std::to_string(wanted) +
                        " more would exceed the limit of " + std::to_string(limit) + "; unpin something, or wait until a pin ends",
                    "pin");
}

}  // namespace

Result<PinTable::Changed> PinTable::pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until) {
  std::size_t known = path.size();  // keys are chained: where one is known, so are all before it
  while (known > 0 && !keys_.contains(path[known - 1])) --known;
  if (keys_.size() + (path.size() - known) > most_blocks_)
    return too_many("blocks of " + std::to_string(kBlockTokens) + " tokens", path.size() - known, keys_.size(), most_blocks_);
  if (pins_.size() >= kMostPins && !pins_.contains(name)) return too_many("paths", 1, pins_.size(), kMostPins);

  Changed changed;
  for (std::size_t i = known; i < path.size(); ++i) {
    const BlockKey parent = i == 0 ? BlockKey{} : path[i - 1];
    TROUPE_CHECK(path[i] && keys_.emplace(path[i], Key{parent, 0}).second);
    if (parent) ++keys_.at(parent).uses;
    changed.pinned.push_back(path[i]);
  }
  if (!path.empty()) ++keys_.at(path.back()).uses;
  changed.unpinned = unpin(name);  // the path it had before
  if (!path.empty()) {
    pins_.emplace(name, Pin{path.back(), until});
    ends_.emplace(until, name);
  }
  return changed;
}

std::vector<BlockKey> PinTable::unpin(const PinName& name) {
  std::vector<BlockKey> gone;
  const auto at = pins_.find(name);
  if (at == pins_.end()) return gone;
  BlockKey key = at->second.last;
  ends_.erase({at->second.until, name});
  pins_.erase(at);
  while (key) {
    const auto held = keys_.find(key);
    if (--held->second.uses > 0) break;
    gone.push_back(key);
    key = held->second.parent;
    keys_.erase(held);
  }
  return gone;
}

std::vector<BlockKey> PinTable::expire(std::uint64_t now) {
  std::vector<BlockKey> gone;
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const auto keys = unpin(PinName(ends_.begin()->second));
    gone.insert(gone.end(), keys.begin(), keys.end());
  }
  return gone;
}

void PinTable::check_invariants() const {
  std::unordered_map<BlockKey, std::uint32_t> uses;
  for (const auto& [key, held] : keys_)
    if (held.parent) ++uses[held.parent];
  for (const auto& [name, pin] : pins_) {
    ++uses[pin.last];
    TROUPE_CHECK(ends_.count({pin.until, name}) == 1);
  }
  TROUPE_CHECK(ends_.size() == pins_.size() && pins_.size() <= kMostPins && keys_.size() <= most_blocks_);
  for (const auto& [key, held] : keys_) TROUPE_CHECK(held.uses > 0 && held.uses == uses[key]);
  TROUPE_CHECK(uses.size() == keys_.size());
}

}  // namespace troupe::kv
