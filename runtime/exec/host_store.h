// HostStore: blocks in memory of the host. The address space of all places is reserved at the start; the system gives memory when a place
// is first written, and nothing is allocated afterwards.
// Thread: any, as long as moves of one place come one after another: the lock covers keys, not bytes.
// Invariant: a place has a key only while its bytes are whole.
#pragma once
#include "runtime/exec/tier_store.h"
#include "runtime/exec/use_clock.h"

#include <memory>
#include <mutex>

namespace troupe::exec {

class HostStore final : public TierStore {
 public:
  static Result<std::unique_ptr<TierStore>> open(const StoreSpec& spec);
  ~HostStore() override;
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  bool survives_restart() const override { return false; }
  Status put(std::span<BlockWrite> writes) override;
  Status get(std::span<BlockRead> reads) override;
  void drop(std::span<const StoredBlock> blocks) override;
  std::vector<StoredBlock> inventory() const override;

 private:
  struct Place {
    BlockKey key;  // null = empty, or being written
    std::uint64_t used = 0;
  };
  HostStore(const StoreSpec& spec, std::size_t stride, std::byte* memory);
  std::byte* at(BlockId block) const { return memory_ + block * stride_; }
  bool holds(BlockId block, const BlockKey& key) const;

  const std::size_t stride_;
  std::byte* const memory_;
  UseClock clock_;
  mutable std::mutex mutex_;
  std::vector<Place> places_;
};

}  // namespace troupe::exec
