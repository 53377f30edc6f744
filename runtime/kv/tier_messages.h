// The tier protocol as plain values; mirrors messages/cache.capnp, which tells the rules. "Holder" = who stands above a tier:
// the scheduler for the device tier. A lock or a lease goes back only by the holder, once no plan in flight names the block.
#pragma once
#include "messages/ids.h"
#include "runtime/kv/block_changes.h"

#include <cstdint>
#include <vector>

namespace troupe::kv {

enum class MissReason : std::uint16_t {
  kNone,
  kNeverSeen,
  kEvicted,
  kOtherDomain,
  kCheaperToCompute,
  kMoveFailed,
  kScoresWanted,
  kTemplateRewrote
};

/// Tokens of one prompt by where their K and V came from.
struct TierTokens {
  std::uint32_t device = 0, host = 0, disk = 0, computed = 0;
  friend bool operator==(const TierTokens&, const TierTokens&) = default;
};
struct CacheReport {
  TierTokens tokens;
  MissReason miss = MissReason::kNone;
  std::uint32_t load_us = 0;
  friend bool operator==(const CacheReport&, const CacheReport&) = default;
};

struct Match {
  GroupEpoch epoch;
  LockId lock;
  std::uint32_t first_block = 0;
  std::vector<BlockKey> keys;    // full blocks from first_block on
  std::vector<TokenId> tokens;   // device tier only: ids from position 0 on
  std::uint32_t max_tokens = 0;  // match no further
  Hash128 domain;                // key domain: a match inside the first block compares tokens only within it
};
struct PrefixMatched {
  GroupEpoch epoch;
  LockId lock;
  std::vector<BlockId> device_blocks;
  std::vector<BlockId> host_blocks, disk_blocks;
  BlockId tail_block = kNone32;   // first tail_tokens positions continue; locked under tail_lock; kNone32 = none
  std::uint16_t tail_tokens = 0;  // 1...31
  LockId tail_lock;
  MissReason miss = MissReason::kNone;
  Incarnation host_tier = 0, disk_tier = 0;
};
/// What a tier asks the tier below: the keys behind its own run, as far as a match may go; none if nothing is left. No tokens.
Match match_below(const Match& request, std::size_t run);
/// `answer` goes on with the runs of the tiers below.
void append_below(PrefixMatched& answer, const PrefixMatched& below);
struct LeaseBlocks {
  GroupEpoch epoch;
  LeaseId lease;
  std::uint32_t blocks = 0;
  bool contiguous = true;
};
struct BlocksLeased {
  GroupEpoch epoch;
  LeaseId lease;
  std::vector<BlockRange> ranges;  // fewer than wanted, or none, is no error
  std::uint32_t evictable = 0;
  bool more_follow = false;  // in another answer to the same request
};
std::uint32_t count_blocks(const std::vector<BlockRange>& ranges);
struct PublishBlocks {
  GroupEpoch epoch;
  LockId lock;
  BlockKey parent;              // null = first block of a chain
  std::vector<BlockKey> keys;   // one a full block, in chain order
  std::vector<BlockId> blocks;  // one a key; one more if tail > 0
  std::uint16_t tail = 0;       // positions in the last block, 1...31; 0 = none
  std::vector<TokenId> tokens;  // ids of blocks and tail, in order
  Hash128 domain;               // key domain of the chain; decides the root where parent is null
};
struct ReleaseBlocks {
  GroupEpoch epoch;
  std::vector<LockId> locks;
  std::vector<BlockRange> leased;  // never published: free at once
};
/// Ends what `lock` holds in the tiers below the device.
struct LoadFinished {
  GroupEpoch epoch;
  LockId lock;
  std::vector<BlockKey> failed;  // not on all ranks: forgotten
};
/// A block of the tier above, locked there until WrittenDown.
struct WantedBlock {
  BlockKey key;
  BlockKey parent;  // null: first of a chain, or not known
  BlockId source = 0;
};
struct WriteDownWanted {
  GroupEpoch epoch;
  std::vector<WantedBlock> blocks;  // a parent before its children
  bool soon = false;                // pinned, or of a stored response
  Incarnation tier = 0;             // sender's, where it is host or disk; 0 = device
};
struct WrittenDown {
  GroupEpoch epoch;
  std::vector<BlockKey> keys;    // from now on evicting the upper copy is an index operation
  std::vector<BlockKey> failed;  // not tried again for this block
};
/// A reader of block events wants what comes behind `after`.
struct ReadBlockEvents {
  std::uint64_t reader = 0, query = 0;
  Incarnation incarnation = 0;  // whose number `after` is
  std::uint64_t after = 0;
  bool tokens = false;
};
struct BlockEvents {
  ReplicaId replica;
  Incarnation incarnation = 0;
  std::uint64_t query = 0;
  std::uint64_t first = 0;  // number of the first change; of a snapshot: of the last change that it contains
  bool snapshot = false;    // without numbers of their own
  bool cleared = false;     // a snapshot begins: forget all
  bool more = false;        // of a snapshot: another message of it follows
  std::vector<BlockChange> changes = {};
  std::vector<std::vector<TokenId>> tokens = {};  // one list a change, or none at all
  friend bool operator==(const BlockEvents&, const BlockEvents&) = default;
};
/// What a rank's store holds (shard_control.capnp).
struct InventoryEntry {
  BlockKey key;
  BlockId block = 0;
  std::uint32_t age_s = 0;  // since its last use
  friend bool operator==(const InventoryEntry&, const InventoryEntry&) = default;
};
/// One page of it; all pages of a rank make its list.
struct InventoryReported {
  GroupEpoch epoch;
  std::uint16_t rank = 0;
  Tier tier = Tier::kHost;
  std::uint32_t page = 0, pages = 1;
  std::vector<InventoryEntry> entries;
};

}  // namespace troupe::kv
