// SlowStore: a store that reads no faster than some rate, for tests that need a slow disk or a slow host (--fault). Everything else is
// the inner store's, its thread too.
#pragma once
#include "runtime/exec/tier_store.h"

#include <memory>

namespace troupe::exec {

struct SlowTier {
  Tier tier = Tier::kDisk;
  std::uint64_t bytes_per_second = 0;  // 0: as fast as it is
};

class SlowStore final : public TierStore {
 public:
  SlowStore(std::unique_ptr<TierStore> inner, std::uint64_t bytes_per_second);
  bool survives_restart() const override { return inner_->survives_restart(); }
  Status put(std::span<BlockWrite> writes) override { return inner_->put(writes); }
  /// Waits for what was read, not for misses.
  Status get(std::span<BlockRead> reads) override;
  void drop(std::span<const StoredBlock> blocks) override { inner_->drop(blocks); }
  bool tidy() override { return inner_->tidy(); }
  std::vector<StoredBlock> inventory() const override { return inner_->inventory(); }

 private:
  const std::unique_ptr<TierStore> inner_;
  const std::uint64_t bytes_per_second_;
};

}  // namespace troupe::exec
