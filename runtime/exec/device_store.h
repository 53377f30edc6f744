// DeviceStore: a rank's K/V cache as a TierStore, so that a TierMover carries its blocks. The bytes stay in the cache, where the compute
// thread writes blocks that plans name; this adds the key of each place and the check of it. Steps know no keys, so the owner says when a
// place has one: from publish() or put() on, until hand_out().
// Owner: the rank, with the cache, which must live longer. Thread: any; which blocks may be touched while a step runs: KvCache in
// kernels/backend.h. Targets are leased blocks that no plan names before their set has ended, sources are published and locked.
// Invariant: a place that has a key is final, so reading it beside a step is no race.
#pragma once
#include "kernels/backend.h"
#include "runtime/exec/memory_store.h"

namespace troupe::exec {

class DeviceStore final : public MemoryStore {
 public:
  /// The cache has a block at least.
  explicit DeviceStore(kernels::KvCache& cache);

  /// The block was computed here and is final: the step that filled it has finished. False, and nothing changes: no key, no such block,
  /// or a place that has another key and was not handed out since, so that somebody is mistaken.
  bool publish(BlockId block, const BlockKey& key) { return claim(block, key); }
  /// Before a plan names it as one to be written.
  void hand_out(BlockId block) { set_key(block, {}); }
  /// A new epoch: the device is empty. Moves that name it have ended before (TierMover::cancel_all and their ends).
  void clear();

 private:
  void copy_in(BlockId block, const std::byte* from) override;
  void copy_out(BlockId block, std::byte* to) const override;

  kernels::KvCache& cache_;
};

}  // namespace troupe::exec
