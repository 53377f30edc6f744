#include "runtime/kv/lower_tier.h"

#include <algorithm>

namespace troupe::kv {

LowerTier::LowerTier(const LowerTierSpec& spec) : spec_(spec), waiting_(spec.most_waiting), pins_(spec.blocks / 2) { reset(); }

void LowerTier::reset() {
  ready_ = false;
  pool_.reset(spec_.blocks);
  places_.assign(spec_.blocks, Place{});
  by_key_.clear();
  children_.clear();
  by_last_use_.clear();
  locks_.clear();
  waiting_.clear();
  locked_ = 0;
}

void LowerTier::begin_epoch(GroupEpoch epoch) {
  epoch_ = epoch;
  for (const auto& [key, place] : by_key_)
    if (places_[place].parent) known_parents_[key] = places_[place].parent;
  reset();
}

void LowerTier::adopt_inventory(GroupEpoch epoch, std::span<const std::vector<InventoryEntry>> ranks) {
  if (epoch != epoch_ || ready_) return;
  ready_ = true;
  std::vector<InventoryEntry> common;  // what the ranks up to now agree on
  if (!ranks.empty()) common = ranks.front();
  for (const auto& rank : ranks.subspan(std::min<std::size_t>(ranks.size(), 1))) {
    std::unordered_map<BlockId, BlockKey> there;
    for (const InventoryEntry& entry : rank) there.emplace(entry.block, entry.key);
    std::erase_if(common, [&](const InventoryEntry& entry) {
      const auto at = there.find(entry.block);
      return at == there.end() || at->second != entry.key;
    });
  }
  std::stable_sort(common.begin(), common.end(), [](const auto& a, const auto& b) { return a.age_s > b.age_s; });

  // Lists come from disks: ids beyond the tier, and keys or places named twice, are passed over. The last used comes first here.
  pool_.lease(spec_.blocks);
  clock_ += common.size();
  std::uint64_t stamp = clock_;
  for (auto entry = common.rbegin(); entry != common.rend(); ++entry, --stamp) {
    if (entry->block >= spec_.blocks || !entry->key || by_key_.contains(entry->key)) continue;
    if (pool_.state(entry->block) != BlockState::kLeased) continue;
    const auto parent = known_parents_.find(entry->key);
    pool_.change(entry->block, BlockState::kLeased, BlockState::kCached);
    enter(entry->block, entry->key, parent == known_parents_.end() ? BlockKey{} : parent->second);
    places_[entry->block].last_use = stamp;
  }
  known_parents_.clear();
  for (BlockId place = 0; place < spec_.blocks; ++place) {
    if (pool_.state(place) == BlockState::kLeased) pool_.change(place, BlockState::kLeased, BlockState::kFree);
    refresh(place);
  }
}

void LowerTier::clear() {
  for (BlockId place = 0; place < spec_.blocks; ++place)
    if (known(place)) forget(place);
  known_parents_.clear();
}

std::vector<BlockId> LowerTier::match(const Match& request) {
  std::vector<BlockId> run;
  if (request.epoch != epoch_) return run;
  TROUPE_CHECK(request.lock && !locks_.contains(request.lock));
  std::vector<Held> held;
  BlockKey parent;  // of keys[0] it is not told
  for (const BlockKey& key : request.keys) {
    const auto index = request.first_block + static_cast<std::uint32_t>(run.size());
    if ((std::uint64_t{index} + 1) * kBlockTokens > request.max_tokens) break;
    const auto at = by_key_.find(key);
    if (at == by_key_.end() || pool_.state(at->second) != BlockState::kCached) break;
    const BlockId place = at->second;
    learn_parent(place, parent);
    if (places_[place].locks++ == 0) ++locked_;
    touch(place);
    held.push_back({index, place});
    run.push_back(place);
    parent = key;
  }
  counters_.query_blocks += request.keys.size();
  counters_.hit_blocks += run.size();
  if (!held.empty()) locks_.emplace(request.lock, std::move(held));
  return run;
}

void LowerTier::release(const ReleaseBlocks& request) {
  if (request.epoch != epoch_) return;
  TROUPE_CHECK(request.leased.empty() && (request.from_block == 0 || request.locks.size() == 1));
  for (LockId lock : request.locks) {
    const auto at = locks_.find(lock);
    if (at == locks_.end()) continue;  // it found nothing here
    // Deepest first: a parent is used after its child, so that it goes after it even where nobody knows that it is one.
    for (auto& held = at->second; !held.empty() && held.back().index >= request.from_block; held.pop_back()) unlock(held.back().place);
    if (at->second.empty()) locks_.erase(at);
  }
}

void LowerTier::finish_loads(const TierMovesFinished& moves) {
  if (moves.epoch != epoch_ || moves.tier != spec_.incarnation) return;
  for (std::uint32_t index : moves.failed) {
    TROUPE_CHECK(index < moves.blocks.size());
    const auto& [key, place] = moves.blocks[index];
    const auto at = by_key_.find(key);
    if (at == by_key_.end() || at->second != place) continue;  // another load of it has failed before
    TROUPE_CHECK(pool_.state(place) == BlockState::kCached);
    forget(place);
    ++counters_.lost_blocks;
  }
}

WrittenDown LowerTier::want(const WriteDownWanted& request) {
  WrittenDown answer{request.epoch, {}, {}};
  if (request.epoch != epoch_) return answer;
  for (const WantedBlock& block : request.blocks) {
    TROUPE_CHECK(block.key && block.key != block.parent);
    const auto at = by_key_.find(block.key);
    if (at != by_key_.end() && pool_.state(at->second) == BlockState::kLeased) continue;  // answered when it is written
    if (already_here(block)) {
      answer.keys.push_back(block.key);
    } else if (!waiting_.push(block, request.soon || pins_.contains(block.key))) {
      answer.failed.push_back(block.key);
      ++counters_.refused_blocks;
    }
  }
  return answer;
}

WritesStarted LowerTier::start_writes() {
  WritesStarted started;
  started.answered.epoch = epoch_;
  if (!ready_) return started;
  std::vector<WantedBlock> chosen;
  const std::uint32_t writing = pool_.count(BlockState::kLeased);
  while (writing + chosen.size() < spec_.most_writing) {
    const auto block = waiting_.pop();
    if (!block) break;
    if (already_here(*block)) {  // an inventory brought it
      started.answered.keys.push_back(block->key);
      continue;
    }
    add_child(block->parent);  // before room is made: a write never evicts its own chain
    chosen.push_back(*block);
  }
  while (pool_.count(BlockState::kFree) < chosen.size() && !by_last_use_.empty()) {
    forget(by_last_use_.begin()->second);
    ++counters_.evicted_blocks;
  }
  auto block = chosen.begin();
  for (const BlockRange& range : pool_.lease(static_cast<std::uint32_t>(chosen.size())))
    for (BlockId place = range.first; place < range.first + range.count; ++place, ++block) {
      enter(place, block->key, block->parent);
      remove_child(block->parent);  // counted by enter(), too
      started.writes.push_back({block->key, block->source, place});
    }
  for (; block != chosen.end(); ++block) {
    remove_child(block->parent);
    started.answered.failed.push_back(block->key);
    ++counters_.refused_blocks;
  }
  return started;
}

WrittenDown LowerTier::finish_writes(const TierMovesFinished& moves) {
  WrittenDown answer{moves.epoch, {}, {}};
  if (moves.epoch != epoch_ || moves.tier != spec_.incarnation) return answer;
  std::vector<bool> failed(moves.blocks.size());
  for (std::uint32_t index : moves.failed) {
    TROUPE_CHECK(index < failed.size());
    failed[index] = true;
  }
  for (std::size_t i = 0; i < moves.blocks.size(); ++i) {
    const auto& [key, place] = moves.blocks[i];
    TROUPE_CHECK(pool_.state(place) == BlockState::kLeased && places_[place].key == key);
    if (known(place) && !failed[i]) {
      pool_.change(place, BlockState::kLeased, BlockState::kCached);
      touch(place);
      answer.keys.push_back(key);
      ++counters_.written_blocks;
    } else {
      if (known(place)) leave(place);
      set_free(place);
      answer.failed.push_back(key);
      ++counters_.lost_blocks;
    }
  }
  return answer;
}

Status LowerTier::pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until) {
  auto changed = pins_.pin(name, path, until);
  if (!changed) return changed.error();
  for (const BlockKey& key : changed->pinned) {
    refresh(key);
    waiting_.move_up(key);
  }
  for (const BlockKey& key : changed->unpinned) refresh(key);
  return ok_status();
}

void LowerTier::unpin(const PinName& name) {
  for (const BlockKey& key : pins_.unpin(name)) refresh(key);
}

void LowerTier::expire(std::uint64_t now) {
  for (const BlockKey& key : pins_.expire(now)) refresh(key);
}

}  // namespace troupe::kv
