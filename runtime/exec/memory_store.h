// MemoryStore: what stores have in common whose places can be copied from and to at once, and that keep what is in which place in memory:
// keys, stamps of last use, and the order of clearing a key, copying, and setting it.
// Thread: any, as long as moves of one place come one after another: the lock covers keys, not bytes.
// Invariant: a place has a key only while its bytes are whole.
#pragma once
#include "runtime/exec/tier_store.h"
#include "runtime/exec/use_clock.h"

#include <mutex>

namespace troupe::exec {

class MemoryStore : public TierStore {
 public:
  bool survives_restart() const final { return false; }
  Status put(std::span<BlockWrite> writes) final;
  Status get(std::span<BlockRead> reads) final;
  void drop(std::span<const StoredBlock> blocks) final;
  std::vector<StoredBlock> inventory() const final;

 protected:
  explicit MemoryStore(const StoreSpec& spec) : TierStore(spec), places_(spec.blocks) {}
  /// The place is there and has block_bytes() bytes.
  virtual void copy_in(BlockId block, const std::byte* from) = 0;
  virtual void copy_out(BlockId block, std::byte* to) const = 0;
  /// As set_key(), but a place that has another key keeps it. True: the place has this key now.
  bool claim(BlockId block, const BlockKey& key);
  /// A null key: the place is empty. A place that is not there: nothing.
  void set_key(BlockId block, const BlockKey& key);

 private:
  struct Place {
    BlockKey key;  // null = empty, or being written
    std::uint64_t used = 0;
  };
  bool holds(BlockId block, const BlockKey& key) const { return block < blocks_ && key && places_[block].key == key; }

  UseClock clock_;
  mutable std::mutex mutex_;
  std::vector<Place> places_;
};

}  // namespace troupe::exec
