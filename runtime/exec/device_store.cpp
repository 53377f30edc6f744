#include "runtime/exec/device_store.h"

namespace troupe::exec {
namespace {

StoreSpec spec_of(const kernels::KvCache& cache) {
  StoreSpec spec;
  spec.block_bytes = cache.block_bytes();
  spec.blocks = static_cast<std::uint32_t>(cache.shape().blocks);
  TROUPE_CHECK(check_store(spec).ok());
  return spec;
}

}  // namespace

DeviceStore::DeviceStore(kernels::KvCache& cache) : MemoryStore(spec_of(cache)), cache_(cache) {}

void DeviceStore::clear() {
  for (BlockId block = 0; block < blocks_; ++block) hand_out(block);
}

void DeviceStore::copy_in(BlockId block, const std::byte* from) { cache_.write_block(block, {from, block_bytes_}); }
void DeviceStore::copy_out(BlockId block, std::byte* to) const { cache_.read_block(block, {to, block_bytes_}); }

}  // namespace troupe::exec
