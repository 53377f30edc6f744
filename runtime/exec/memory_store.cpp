#include "runtime/exec/memory_store.h"

#include <algorithm>
#include <utility>

namespace troupe::exec {

void MemoryStore::set_key(BlockId block, const BlockKey& key) {
  if (block >= blocks_) return;
  const std::lock_guard guard(mutex_);
  places_[block] = {key, key ? clock_.next() : 0};
}

bool MemoryStore::claim(BlockId block, const BlockKey& key) {
  if (block >= blocks_ || !key) return false;
  const std::lock_guard guard(mutex_);
  Place& place = places_[block];
  if (!place.key) place = {key, clock_.next()};
  return place.key == key;
}

Status MemoryStore::put(std::span<BlockWrite> writes) {
  for (BlockWrite& write : writes) {
    write.done = false;
    if (write.block >= blocks_ || !write.key) continue;
    set_key(write.block, {});
    copy_in(write.block, write.from);
    set_key(write.block, write.key);
    write.done = true;
  }
  return ok_status();
}

Status MemoryStore::get(std::span<BlockRead> reads) {
  for (BlockRead& read : reads) {
    read.done = false;
    {
      const std::lock_guard guard(mutex_);
      if (!holds(read.block, read.key)) continue;
    }
    copy_out(read.block, read.to);
    const std::lock_guard guard(mutex_);
    if (!holds(read.block, read.key)) continue;  // written over meanwhile, against the rule: a miss, not a mixture
    places_[read.block].used = clock_.next();
    read.done = true;
  }
  return ok_status();
}

void MemoryStore::drop(std::span<const StoredBlock> blocks) {
  const std::lock_guard guard(mutex_);
  for (const StoredBlock& block : blocks)
    if (holds(block.block, block.key)) places_[block.block] = {};
}

std::vector<StoredBlock> MemoryStore::inventory() const {
  std::vector<std::pair<std::uint64_t, BlockId>> order;
  std::vector<StoredBlock> blocks;
  const std::lock_guard guard(mutex_);
  for (BlockId block = 0; block < blocks_; ++block)
    if (places_[block].key) order.emplace_back(places_[block].used, block);
  std::sort(order.begin(), order.end());
  for (const auto& [used, block] : order) blocks.push_back({block, places_[block].key, UseClock::age_s(used)});
  return blocks;
}

}  // namespace troupe::exec
