// DeviceTier: index and policy of the blocks in device memory: radix tree over chained keys, locks, LRU over unlocked leaves,
// pins of clients, forks inside a block, partial tails, and what is to be written to the tier below. Knows ids, never bytes. Owned by the
// CacheTier actor; one thread at a time. Invariants: free + leased + in tree == total; a locked or pinned node and its ancestors are never
// evicted; references end at zero.
#pragma once
#include "runtime/kv/block_changes.h"
#include "runtime/kv/pin_table.h"
#include "runtime/kv/tier_messages.h"
#include "runtime/kv/write_downs.h"

#include <memory>

namespace troupe::kv {

struct DeviceTierStats {
  std::uint32_t total = 0, free = 0, leased = 0, cached = 0, locked = 0, pinned_keys = 0;
  std::uint32_t unwritten = 0;  // wait to be written to the tier below
  std::uint64_t query_tokens = 0, hit_tokens = 0, evicted_blocks = 0, published_blocks = 0;
  // With a tier below: whole blocks evicted that were written to it, and those that were not; written, and those that it refused.
  std::uint64_t dropped_blocks = 0, lost_blocks = 0, written_blocks = 0, refused_blocks = 0;
};

class DeviceTier {
 public:
  DeviceTier();
  ~DeviceTier();
  DeviceTier(const DeviceTier&) = delete;
  DeviceTier& operator=(const DeviceTier&) = delete;

  /// Empties everything; all locks and leases of an older epoch are void, its messages are dropped.
  void begin_epoch(GroupEpoch epoch, std::uint32_t blocks, bool tier_below = false);
  PrefixMatched match(const Match& request);
  /// With the answer of the tiers below to `asked`, which match_below() made of a prompt of so many tokens.
  void join(PrefixMatched& answer, const PrefixMatched& below, const Match& asked, std::size_t prompt_tokens) const;
  BlocksLeased lease(const LeaseBlocks& request);
  void publish(const PublishBlocks& request);
  void release(const ReleaseBlocks& request);
  /// Blocks to ask the tier below for; they stay until written_down(). None where there is nothing, or enough is asked for.
  WriteDownWanted next_write_downs();
  const WriteDowns& write_downs() const;
  void written_down(const WrittenDown& answer);
  /// What was asked for is free again, and asked for anew; with the tier gone for good, nothing is.
  void tier_below_lost(bool for_good);
  /// The blocks of the path, there or yet to come, are not evicted before expire() is told `until`. Refused beyond half of all blocks:
  /// the rest stays for whoever runs. Pins outlive an epoch, unless the number of blocks changes.
  Status pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until);
  void unpin(const PinName& name);
  /// How many blocks of the path, from its start on, are in the tree.
  std::uint32_t run_of(std::span<const BlockKey> path) const;
  void expire(std::uint64_t now);
  /// From now on changes are noted: first all there is. Tails without a key are nobody's business.
  void watch();
  std::vector<BlockChange> take_changes();
  /// Of a block in the tree; else empty.
  std::span<const TokenId> tokens_of(const BlockKey& key) const;
  DeviceTierStats stats() const;
  void check_invariants() const;  // throws InvariantViolation; for tests

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::kv
