// The places of LowerTier: what lies where, which of it may be evicted, and that all of that agrees.
#include "runtime/kv/lower_tier.h"

namespace troupe::kv {

bool LowerTier::known(BlockId place) const {
  const auto at = by_key_.find(places_[place].key);
  return at != by_key_.end() && at->second == place;
}

void LowerTier::enter(BlockId place, const BlockKey& key, const BlockKey& parent) {
  places_[place] = Place{key, parent};
  TROUPE_CHECK(by_key_.emplace(key, place).second);
  add_child(parent);
}

void LowerTier::leave(BlockId place) {
  if (pool_.state(place) == BlockState::kCached) changes_.removed(places_[place].key);
  write_downs_.pass_over(places_[place].key);
  by_key_.erase(places_[place].key);
  remove_child(places_[place].parent);
  refresh(place);
}

void LowerTier::forget(BlockId place) {
  leave(place);
  if (pool_.state(place) == BlockState::kLeased) return;  // freed when its write has ended
  if (places_[place].locks > 0)
    pool_.change(place, BlockState::kCached, BlockState::kShadow);
  else
    set_free(place);
}

void LowerTier::set_free(BlockId place) {
  pool_.change(place, pool_.state(place), BlockState::kFree);
  places_[place] = Place{};
}

void LowerTier::learn_parent(BlockId place, const BlockKey& parent) {
  if (!parent || places_[place].parent) return;
  places_[place].parent = parent;
  add_child(parent);
}

void LowerTier::add_child(const BlockKey& parent) {
  if (!parent) return;
  ++children_[parent];
  refresh(parent);
}

void LowerTier::remove_child(const BlockKey& parent) {
  if (!parent) return;
  const auto count = children_.find(parent);
  if (--count->second == 0) children_.erase(count);
  refresh(parent);
}

void LowerTier::touch(BlockId place) {
  Place& touched = places_[place];
  if (touched.listed) by_last_use_.erase({touched.last_use, place});
  touched.listed = false;
  touched.last_use = ++clock_;
  refresh(place);
}

void LowerTier::refresh(BlockId place) {
  Place& at = places_[place];
  const bool wanted =
      pool_.state(place) == BlockState::kCached && known(place) && at.locks == 0 && !children_.contains(at.key) && !pins_.contains(at.key);
  if (wanted == at.listed) return;
  at.listed = wanted;
  if (wanted)
    by_last_use_.emplace(at.last_use, place);
  else
    by_last_use_.erase({at.last_use, place});
}

void LowerTier::refresh(const BlockKey& key) {
  const auto at = by_key_.find(key);
  if (at != by_key_.end()) refresh(at->second);
}

void LowerTier::hold(BlockId place) {
  if (places_[place].locks++ == 0) ++locked_;
  refresh(place);
}

void LowerTier::let_go(BlockId place) {
  TROUPE_CHECK(places_[place].locks > 0);
  if (--places_[place].locks == 0) --locked_;
  if (pool_.state(place) == BlockState::kCached)
    refresh(place);
  else if (places_[place].locks == 0)
    set_free(place);
}

void LowerTier::unlock(BlockId place) {
  if (pool_.state(place) == BlockState::kCached) touch(place);
  let_go(place);
}

void LowerTier::watch() {
  changes_.watch();
  for (const auto& [key, place] : by_key_)
    if (pool_.state(place) == BlockState::kCached) changes_.stored(key, places_[place].parent);
}

bool LowerTier::already_here(const WantedBlock& block) {
  const auto at = by_key_.find(block.key);
  if (at == by_key_.end()) return false;
  learn_parent(at->second, block.parent);
  touch(at->second);
  return true;
}

LowerTierStats LowerTier::stats() const {
  LowerTierStats stats = counters_;
  stats.total = pool_.total();
  stats.free = pool_.count(BlockState::kFree);
  stats.writing = pool_.count(BlockState::kLeased);
  stats.stored = pool_.count(BlockState::kCached);
  stats.locked = locked_;
  stats.waiting = waiting_.size();
  stats.unwritten = write_downs_.waiting() + static_cast<std::uint32_t>(write_downs_.asked().size());
  stats.pinned_keys = pins_.blocks();
  return stats;
}

void LowerTier::check_invariants() const {
  pool_.check_invariants();
  pins_.check_invariants();
  std::vector<std::uint32_t> locks(spec_.blocks);
  for (const auto& [lock, held] : locks_) {
    TROUPE_CHECK(!held.empty());
    for (const BlockId place : held) ++locks[place];
  }
  for (const WantedBlock& block : write_downs_.asked()) {
    TROUPE_CHECK(places_[block.source].key == block.key);
    ++locks[block.source];
  }
  TROUPE_CHECK(write_downs_.waiting() <= by_key_.size());
  std::unordered_map<BlockKey, std::uint32_t> children;
  std::uint32_t locked = 0, entered = 0, listed = 0;
  for (BlockId place = 0; place < spec_.blocks; ++place) {
    const Place& at = places_[place];
    const BlockState state = pool_.state(place);
    TROUPE_CHECK(at.locks == locks[place] && static_cast<bool>(at.key) == (state != BlockState::kFree));
    TROUPE_CHECK(at.locks == 0 || state == BlockState::kCached || state == BlockState::kShadow);
    TROUPE_CHECK(state != BlockState::kShadow || at.locks > 0);
    TROUPE_CHECK(known(place) ? state != BlockState::kShadow : state != BlockState::kCached);
    if (known(place) && at.parent) ++children[at.parent];
    locked += at.locks > 0 ? 1 : 0;
    entered += known(place) ? 1 : 0;
    listed += at.listed ? 1 : 0;
    const bool evictable = state == BlockState::kCached && at.locks == 0 && !children_.contains(at.key) && !pins_.contains(at.key);
    TROUPE_CHECK(at.listed == evictable && (!evictable || by_last_use_.count({at.last_use, place}) == 1));
  }
  TROUPE_CHECK(children == children_ && locked == locked_ && entered == by_key_.size() && listed == by_last_use_.size());
}

}  // namespace troupe::kv
