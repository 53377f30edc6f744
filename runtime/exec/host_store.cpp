#include "runtime/exec/host_store.h"

#include "messages/error_reasons.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace troupe::exec {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kAheadBytes = std::size_t{64} << 20, kBytesAtOnce = std::size_t{2} << 20;

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

HostStore::HostStore(const StoreSpec& spec, std::size_t stride, std::byte* memory) : MemoryStore(spec), stride_(stride), memory_(memory) {}

bool HostStore::tidy() {
  const std::size_t goal = std::min(used_.load(std::memory_order_relaxed) + kAheadBytes, stride_ * blocks_);
  if (resident_ >= goal) return false;
  ::madvise(memory_ + resident_, std::min(kBytesAtOnce, stride_ * blocks_ - resident_), MADV_POPULATE_WRITE);  // best effort
  resident_ += kBytesAtOnce;
  return resident_ < goal;
}

HostStore::~HostStore() { ::munmap(memory_, stride_ * blocks_); }

void HostStore::copy_in(BlockId block, const std::byte* from) {
  if (const std::size_t end = (block + std::size_t{1}) * stride_; end > used_.load(std::memory_order_relaxed)) used_ = end;
  std::memcpy(at(block), from, block_bytes_);
}
void HostStore::copy_out(BlockId block, std::byte* to) const { std::memcpy(to, at(block), block_bytes_); }

}  // namespace troupe::exec
