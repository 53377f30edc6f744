// RankStores: a rank's side of the cache tiers: the stores of device, host and disk, and the mover that carries blocks between them. It
// does what MoveBlocks says (messages/moves.capnp) and tells what the stores hold; which block goes where is decided in the tiers' actors.
// What it is told is not trusted: a move that names a wrong place, key or tier, a block that is being written, or a tier's past life
// fails, and a move that failed is a miss.
// Owner: the ShardEngine, with the cache, which must live longer. Thread: all calls from any; `finished` and `done` run on the mover's
// thread, must not throw, and come once each. Invariant: between end_epoch() and the next start() no move runs.
#pragma once
#include "runtime/exec/device_store.h"
#include "runtime/exec/slow_store.h"
#include "runtime/exec/tier_mover.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::exec {

struct RankStoresSpec {
  std::uint32_t host_blocks = 0, disk_blocks = 0;  // places; 0 = no such tier
  Hash128 domain;                                  // store_domain()
  std::filesystem::path folder;                    // of the disk's store
  std::uint64_t spare_bytes = StoreSpec().spare_bytes;
  SlowTier slow;                           // tests
  std::function<void(BlockId)> will_load;  // hears of each device block that a move fills, before it does; may be empty
  TierMover::Busy computing;               // write-down gives way then; may be empty
  std::size_t most_moves = TierMover::kMostMoves;
  TierMover::Drive drive = TierMover::Drive::kThread;
};

class RankStores {
 public:
  /// An Error where the host has no memory. A disk store that does not open is a warning in the log, and no tier; null if none is left.
  static Result<std::unique_ptr<RankStores>> open(kernels::KvCache& cache, RankStoresSpec spec);
  /// Cancels all moves and waits for the running batch.
  ~RankStores() = default;

  std::uint32_t host_blocks() { return blocks_of(Tier::kHost); }
  std::uint32_t disk_blocks() { return blocks_of(Tier::kDisk); }
  std::size_t block_bytes() const { return device_.block_bytes(); }

  /// Begins the moves. `finished` tells their end, before this returns where none can begin. The report's rank is left to the caller.
  void start(const plan::MoveBlocks& set, std::function<void(plan::MovesFinished)> finished);
  /// Tells what a store holds, least recently used first, once all moves that were started before have ended. False: no such tier.
  bool inventory(Tier tier, std::function<void(std::vector<StoredBlock>)> done);
  /// Runs on the mover's thread, likewise.
  void post(std::function<void()> task) { mover_.post(std::move(task)); }
  /// On the mover's thread, from post() behind an inventory(): µs that reading the block took that was not used for longest then; 0: no
  /// such tier, or nothing was there.
  std::uint32_t time_read(Tier tier);
  /// Of the tier's actor. Moves that name an older one fail from now on.
  void set_incarnation(Tier tier, Incarnation incarnation);
  /// Before a plan writes the block's first position.
  void hand_out(BlockId block) { device_.hand_out(block); }
  /// Cancels all moves, waits until none runs, and forgets what is in the device.
  void end_epoch();

  /// TierMover::Drive::kByHand.
  bool run_one() { return mover_.run_one(); }

 private:
  RankStores(kernels::KvCache& cache, RankStoresSpec spec, std::unique_ptr<TierStore> host, std::unique_ptr<TierStore> disk);
  TierStore* store_of(Tier tier);
  std::uint32_t blocks_of(Tier tier);
  Status admit(const plan::MoveBlocks& set, std::size_t index);

  const std::function<void(BlockId)> will_load_;
  std::array<std::atomic<Incarnation>, 3> incarnations_{};  // by Tier; newest heard of
  std::array<StoredBlock, 3> oldest_{};                     // by Tier, of the last inventory; mover's thread
  DeviceStore device_;
  const std::unique_ptr<TierStore> host_, disk_;
  TierMover mover_;  // last: its thread uses all the others
};

/// Places of a tier below the device that `option` gives `bytes`; 0 bytes: none. An Error where not even two blocks fit, or they do not fit
/// into `limit` bytes of memory.
Result<std::uint32_t> choose_store_blocks(const std::string& option, std::uint64_t bytes, std::uint64_t block_bytes, std::uint64_t limit);

}  // namespace troupe::exec
