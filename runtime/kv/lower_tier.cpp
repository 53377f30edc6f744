#include "runtime/kv/lower_tier.h"

#include <algorithm>

namespace troupe::kv {

LowerTier::LowerTier(const LowerTierSpec& spec) : spec_(spec), waiting_(spec.most_waiting), pins_(spec.blocks / 2) { reset(); }

void LowerTier::reset() {
  ready_ = false;
  changes_.cleared();
  pool_.reset(spec_.blocks);
  places_.assign(spec_.blocks, Place{});
  by_key_.clear();
  children_.clear();
  by_last_use_.clear();
  locks_.clear();
  waiting_.clear();
  locked_ = 0;
}

void LowerTier::begin_epoch(GroupEpoch epoch, bool tier_below) {
  epoch_ = epoch;
  write_downs_.reset(tier_below ? spec_.blocks : 0);
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
    changes_.stored(entry->key, places_[entry->block].parent);
  }
  known_parents_.clear();
  for (BlockId place = 0; place < spec_.blocks; ++place) {
    if (pool_.state(place) == BlockState::kLeased) pool_.change(place, BlockState::kLeased, BlockState::kFree);
    refresh(place);
  }
  // The tier below may have them, or not: it is asked, and answers at once for what it has.
  for (const InventoryEntry& entry : common)
    if (const auto at = by_key_.find(entry.key); at != by_key_.end() && at->second == entry.block)
      write_downs_.add({entry.key, places_[entry.block].parent, entry.block}, pins_.contains(entry.key));
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
  BlockKey parent;  // of keys[0] it is not told
  for (const BlockKey& key : request.keys) {
    if ((std::uint64_t{request.first_block} + run.size() + 1) * kBlockTokens > request.max_tokens) break;
    const auto at = by_key_.find(key);
    if (at == by_key_.end() || pool_.state(at->second) != BlockState::kCached) break;
    const BlockId place = at->second;
    learn_parent(place, parent);
    hold(place);
    touch(place);
    run.push_back(place);
    parent = key;
  }
  counters_.query_blocks += request.keys.size();
  counters_.hit_blocks += run.size();
  if (!run.empty()) locks_.emplace(request.lock, run);
  return run;
}

void LowerTier::release(const ReleaseBlocks& request) {
  if (request.epoch != epoch_) return;
  TROUPE_CHECK(request.leased.empty());
  for (LockId lock : request.locks) {
    const auto at = locks_.find(lock);
    if (at == locks_.end()) continue;  // it found nothing here
    // Deepest first: a parent is used after its child, so that it goes after it even where nobody knows that it is one.
    const auto held = locks_.extract(at);
    for (auto place = held.mapped().rbegin(); place != held.mapped().rend(); ++place) unlock(*place);
  }
}

void LowerTier::finish_load(const LoadFinished& load) {
  const auto at = locks_.find(load.lock);
  if (load.epoch != epoch_ || at == locks_.end()) return;
  for (const BlockKey& key : load.failed) {
    const auto lies = by_key_.find(key);
    if (lies == by_key_.end()) continue;  // another load of it has failed before
    const BlockId place = lies->second;
    const auto& held = at->second;
    if (std::find(held.begin(), held.end(), place) == held.end()) continue;  // written anew since
    forget(place);
    ++counters_.failed_loads;
  }
  release({load.epoch, {load.lock}, {}});
}

void LowerTier::holder_lost() {
  ReleaseBlocks all;
  all.epoch = epoch_;
  for (const auto& [lock, held] : locks_) all.locks.push_back(lock);
  std::sort(all.locks.begin(), all.locks.end());  // oldest first, for a defined order of use
  release(all);
  waiting_.clear();
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

WritesStarted LowerTier::start_writes(std::uint32_t most) {
  WritesStarted started;
  started.answered.epoch = epoch_;
  if (!ready_) return started;
  std::vector<WantedBlock> chosen;
  const std::uint32_t writing = pool_.count(BlockState::kLeased);
  while (writing + chosen.size() < spec_.most_writing && chosen.size() < most) {
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
    const BlockId place = by_last_use_.begin()->second;
    ++counters_.evicted_blocks;
    counters_.dropped_blocks += places_[place].written ? 1 : 0;
    forget(place);
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
      changes_.stored(key, places_[place].parent);
      touch(place);
      write_downs_.add({key, places_[place].parent, place}, pins_.contains(key));
      answer.keys.push_back(key);
      ++counters_.written_blocks;
    } else {
      if (known(place)) leave(place);
      set_free(place);
      answer.failed.push_back(key);
      ++counters_.failed_writes;
    }
  }
  return answer;
}

WriteDownWanted LowerTier::next_write_downs() {
  WriteDownWanted wanted;
  wanted.epoch = epoch_;
  wanted.tier = spec_.incarnation;
  wanted.blocks = write_downs_.take(wanted.soon);
  for (const WantedBlock& block : wanted.blocks) hold(block.source);
  return wanted;
}

void LowerTier::written_down(const WrittenDown& answer) {
  if (answer.epoch != epoch_) return;
  const auto end = [this](const BlockKey& key, bool written) {
    const auto place = write_downs_.answered(key);
    if (!place) return;
    places_[*place].written = written;
    let_go(*place);
  };
  for (const BlockKey& key : answer.keys) end(key, true);
  for (const BlockKey& key : answer.failed) end(key, false);
}

void LowerTier::tier_below_lost(bool for_good) {
  for (const WantedBlock& block : write_downs_.take_back()) {
    if (known(block.source)) write_downs_.add(block, true);  // else forgotten while it was held
    let_go(block.source);
  }
  if (for_good) write_downs_.reset(0);
}

Status LowerTier::pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until) {
  auto changed = pins_.pin(name, path, until);
  if (!changed) return changed.error();
  for (const BlockKey& key : changed->pinned) {
    refresh(key);
    waiting_.move_up(key);
    write_downs_.move_up(key);
  }
  for (const BlockKey& key : changed->unpinned) refresh(key);
  return ok_status();
}

std::uint32_t LowerTier::run_of(std::span<const BlockKey> path) const {
  std::uint32_t run = 0;
  for (; run < path.size(); ++run) {
    const auto at = by_key_.find(path[run]);
    if (at == by_key_.end() || pool_.state(at->second) != BlockState::kCached) break;
  }
  return run;
}

void LowerTier::unpin(const PinName& name) {
  for (const BlockKey& key : pins_.unpin(name)) refresh(key);
}

void LowerTier::expire(std::uint64_t now) {
  for (const BlockKey& key : pins_.expire(now)) refresh(key);
}

}  // namespace troupe::kv
