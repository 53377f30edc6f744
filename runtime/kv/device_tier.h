// DeviceTier: index and policy of the blocks in device memory: radix tree over chained keys, locks, LRU over unlocked leaves,
// pins of clients, forks inside a block, partial tails. Knows ids, never bytes. Owned by the CacheTier actor; one thread at a time.
// Invariants: free + leased + in tree == total; a locked or pinned node and its ancestors are never evicted; references end at zero.
#pragma once
#include "runtime/kv/pin_table.h"
#include "runtime/kv/tier_messages.h"

#include <memory>

namespace troupe::kv {

struct DeviceTierStats {
  std::uint32_t total = 0, free = 0, leased = 0, cached = 0, locked = 0, pinned_keys = 0;
  std::uint64_t query_tokens = 0, hit_tokens = 0, evicted_blocks = 0, published_blocks = 0;
};

class DeviceTier {
 public:
  DeviceTier();
  ~DeviceTier();
  DeviceTier(const DeviceTier&) = delete;
  DeviceTier& operator=(const DeviceTier&) = delete;

  /// Empties everything; all locks and leases of an older epoch are void, its messages are dropped.
  void begin_epoch(GroupEpoch epoch, std::uint32_t blocks);
  PrefixMatched match(const Match& request);
  BlocksLeased lease(const LeaseBlocks& request);
  void publish(const PublishBlocks& request);
  void release(const ReleaseBlocks& request);
  /// The blocks of the path, there or yet to come, are not evicted before expire() is told `until`. Refused beyond half of all blocks:
  /// the rest stays for whoever runs. Pins outlive an epoch, unless the number of blocks changes.
  Status pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until);
  void unpin(const PinName& name);
  void expire(std::uint64_t now);
  DeviceTierStats stats() const;
  void check_invariants() const;  // throws InvariantViolation; for tests

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::kv
