// LowerTier: index and policy of a tier below the device's, host or disk: which block lies in which place, locks, LRU over unlocked leaves,
// pins, what is written down from the tier above, and what is to go on to the tier below. It chooses places; bytes lie in a TierStore
// beside each rank, which checks keys.
// Owned by the CacheTier actor of its tier; one thread at a time.
// Invariants: free + being written + stored + forgotten while locked == all places; one place a key; what is locked, pinned, or has a
// child in the tier is never evicted; a block is matched only once all ranks have it.
#pragma once
#include "runtime/kv/block_changes.h"
#include "runtime/kv/block_pool.h"
#include "runtime/kv/pin_table.h"
#include "runtime/kv/tier_messages.h"
#include "runtime/kv/write_downs.h"
#include "runtime/kv/write_queue.h"

#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace troupe::kv {

struct LowerTierSpec {
  Incarnation incarnation = 0;
  std::uint32_t blocks = 0;           // places, the same on every rank; half of them can be pinned
  std::uint32_t most_writing = 256;   // writes in flight
  std::uint32_t most_waiting = 4096;  // wanted blocks that wait for their write; each is locked above
};

struct LowerTierStats {
  std::uint32_t total = 0, free = 0, writing = 0, stored = 0, locked = 0, waiting = 0, pinned_keys = 0;
  std::uint32_t unwritten = 0;  // wait to be written to the tier below
  std::uint64_t query_blocks = 0, hit_blocks = 0, written_blocks = 0, refused_blocks = 0, evicted_blocks = 0;
  std::uint64_t failed_writes = 0, failed_loads = 0;
  std::uint64_t dropped_blocks = 0;  // evicted, but written to the tier below
};

struct TierWrite {
  BlockKey key;
  BlockId source = 0;  // in the tier above
  BlockId place = 0;
  friend bool operator==(const TierWrite&, const TierWrite&) = default;
};
struct WritesStarted {
  std::vector<TierWrite> writes;  // parents before children
  WrittenDown answered;           // those that need no write, or found no place
};
/// Moves that have ended on all ranks.
struct TierMovesFinished {
  struct Moved {
    BlockKey key;
    BlockId place = 0;
  };
  GroupEpoch epoch;
  Incarnation tier = 0;
  std::vector<Moved> blocks;
  std::vector<std::uint32_t> failed;  // indices of what failed on any rank
};

class LowerTier {
 public:
  explicit LowerTier(const LowerTierSpec& spec);

  /// Locks, wishes and writes in flight are void, and messages of an older epoch are dropped. Nothing is matched or written before the
  /// inventory of the new epoch has told what the stores hold. Pins stay.
  void begin_epoch(GroupEpoch epoch, bool tier_below = false);
  /// One list a rank. What all ranks have in the same place counts; of a key in two places the one used last. The lists name no parents:
  /// those of earlier epochs are remembered, others learned from matches and wishes; until then such a block goes by its age alone.
  void adopt_inventory(GroupEpoch epoch, std::span<const std::vector<InventoryEntry>> ranks);
  /// Forgets all blocks: those in use when their locks end, those being written when the write has.
  void clear();

  /// Places of the run that starts with keys[0], locked until release(). Asks nobody else.
  std::vector<BlockId> match(const Match& request);
  void release(const ReleaseBlocks& request);
  /// Ends the lock; of its blocks those that failed are forgotten.
  void finish_load(const LoadFinished& load);
  /// Who stands above has died: its locks and wishes are void.
  void holder_lost();

  /// Answers what is here already, which is only touched, and what the queue has no room for.
  WrittenDown want(const WriteDownWanted& request);
  /// At most `most`, and as many as may be in flight. Evicts for them; what finds no place then has failed.
  WritesStarted start_writes(std::uint32_t most = kNone32);
  WrittenDown finish_writes(const TierMovesFinished& moves);

  /// Towards the tier below, as for the device (device_tier.h).
  WriteDownWanted next_write_downs();
  const WriteDowns& write_downs() const { return write_downs_; }
  void written_down(const WrittenDown& answer);
  void tier_below_lost(bool for_good);

  /// Not evicted before its time, and written soon. Refused beyond half of the tier.
  Status pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until);
  void unpin(const PinName& name);
  /// How many blocks of the path, from its start on, are here.
  std::uint32_t run_of(std::span<const BlockKey> path) const;
  void expire(std::uint64_t now);
  /// From now on changes are noted: first all there is. What is being written is not there.
  void watch();
  std::vector<BlockChange> take_changes() { return changes_.take(); }

  const LowerTierSpec& spec() const { return spec_; }
  bool ready() const { return ready_; }  // the inventory is here
  LowerTierStats stats() const;
  void check_invariants() const;  // throws InvariantViolation; for tests

 private:
  /// A place's state is the pool's: free, leased = being written, cached = stored, shadow = forgotten while locked.
  struct Place {
    BlockKey key;
    BlockKey parent;  // null: first of a chain, or not known
    std::uint64_t last_use = 0;
    std::uint32_t locks = 0;
    bool written = false;  // to the tier below
    bool listed = false;   // in the eviction order
  };

  void reset();
  bool known(BlockId place) const;  // found under its key
  void enter(BlockId place, const BlockKey& key, const BlockKey& parent);
  void leave(BlockId place);
  void forget(BlockId place);
  void set_free(BlockId place);
  void learn_parent(BlockId place, const BlockKey& parent);
  void add_child(const BlockKey& parent);
  void remove_child(const BlockKey& parent);
  void touch(BlockId place);
  void refresh(BlockId place);  // lists or unlists it
  void refresh(const BlockKey& key);
  void hold(BlockId place);
  void let_go(BlockId place);
  void unlock(BlockId place);  // and counts as a use
  bool already_here(const WantedBlock& block);

  const LowerTierSpec spec_;
  GroupEpoch epoch_;
  bool ready_ = false;
  BlockPool pool_;
  std::vector<Place> places_;
  std::unordered_map<BlockKey, BlockId> by_key_;             // stored or being written
  std::unordered_map<BlockKey, std::uint32_t> children_;     // by parent, be it here or not
  std::unordered_map<BlockKey, BlockKey> known_parents_;     // between epochs
  std::set<std::pair<std::uint64_t, BlockId>> by_last_use_;  // what may be evicted
  std::unordered_map<LockId, std::vector<BlockId>> locks_;   // places, in the order of their chain
  WriteQueue waiting_;                                       // from above
  WriteDowns write_downs_;                                   // to below
  BlockChanges changes_;
  PinTable pins_;
  std::uint64_t clock_ = 0;
  std::uint32_t locked_ = 0;
  LowerTierStats counters_;  // the counters only
};

}  // namespace troupe::kv
