#include "runtime/exec/host_store.h"

#include "messages/error_reasons.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace troupe::exec {
namespace {

constexpr std::size_t kLine = 64;

std::size_t stride_of(const StoreSpec& spec) { return (spec.block_bytes + kLine - 1) / kLine * kLine; }

Error no_memory(const StoreSpec& spec) {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kOutOfMemory,
                    "not enough memory for " + std::to_string(spec.blocks) + " K/V blocks of " + std::to_string(spec.block_bytes) +
                        " bytes in the host's memory");
}

}  // namespace

Result<std::unique_ptr<TierStore>> HostStore::open(const StoreSpec& spec) {
  if (auto checked = check_store(spec); !checked) return checked.error();
  const std::size_t stride = stride_of(spec), bytes = stride * spec.blocks;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return no_memory(spec);
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // best effort
  try {
    return std::unique_ptr<TierStore>(new HostStore(spec, stride, static_cast<std::byte*>(memory)));
  } catch (const std::bad_alloc&) {
    ::munmap(memory, bytes);
    return no_memory(spec);
  }
}

HostStore::HostStore(const StoreSpec& spec, std::size_t stride, std::byte* memory)
    : TierStore(spec), stride_(stride), memory_(memory), places_(spec.blocks) {}

HostStore::~HostStore() { ::munmap(memory_, stride_ * blocks_); }

bool HostStore::holds(BlockId block, const BlockKey& key) const { return block < blocks_ && key && places_[block].key == key; }

Status HostStore::put(std::span<BlockWrite> writes) {
  for (BlockWrite& write : writes) {
    write.done = false;
    if (write.block >= blocks_ || !write.key) continue;
    Place& place = places_[write.block];
    {
      const std::lock_guard guard(mutex_);
      place.key = {};
    }
    std::memcpy(at(write.block), write.from, block_bytes_);
    const std::lock_guard guard(mutex_);
    place = {write.key, clock_.next()};
    write.done = true;
  }
  return ok_status();
}

Status HostStore::get(std::span<BlockRead> reads) {
  for (BlockRead& read : reads) {
    read.done = false;
    {
      const std::lock_guard guard(mutex_);
      if (!holds(read.block, read.key)) continue;
    }
    std::memcpy(read.to, at(read.block), block_bytes_);
    const std::lock_guard guard(mutex_);
    if (!holds(read.block, read.key)) continue;  // written over meanwhile, against the rule: a miss, not a mixture
    places_[read.block].used = clock_.next();
    read.done = true;
  }
  return ok_status();
}

void HostStore::drop(std::span<const StoredBlock> blocks) {
  const std::lock_guard guard(mutex_);
  for (const StoredBlock& block : blocks)
    if (holds(block.block, block.key)) places_[block.block] = {};
}

std::vector<StoredBlock> HostStore::inventory() const {
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
