// TiersBelow: host and disk as the scheduler sees them, with the bytes of FakeShard's blocks: what they hold, what is locked there, and
// moves to the device that take time and may fail. Checks that every lock ends, and that targets are leased blocks that nobody else uses.
#pragma once
#include "runtime/kv/tier_messages.h"
#include "runtime/plan/block_moves.h"
#include "tests/runtime/schedule/fake_shard.h"

#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace troupe::schedule::test {

class TiersBelow {
 public:
  explicit TiersBelow(const BlockLedger& ledger) : ledger_(ledger) {}

  /// Percent of published blocks that are written down to each, of moves that fail, of blocks forgotten when one is written.
  std::uint32_t keeps_host = 0, keeps_disk = 0, fails = 0, forgets = 0;
  std::uint32_t host_block_us = 20, disk_block_us = 100;
  void seed(std::uint64_t seed) { random_.seed(seed); }

  void write_down(const kv::PublishBlocks& publish, const FakeShard& shard);
  void keep(Tier tier, const BlockKey& key, const FakeBlock& bytes);
  const FakeBlock& bytes(Tier tier, const BlockKey& key) { return this->tier(tier).at(key).bytes; }
  void damage(Tier tier, const BlockKey& key);  // found, but not to be moved
  /// What goes on where the device's run ends.
  void extend(kv::PrefixMatched& reply, const kv::Match& request);
  void release(const kv::ReleaseBlocks& release);
  void finish(const kv::LoadFinished& load);
  void end_epoch();

  void accept(const plan::MoveBlocks& moves, const FakeShard& shard);
  bool moving() const { return !moves_.empty(); }
  bool moving(BlockId target) const { return targets_.contains(target); }
  /// Time that the oldest set takes.
  std::uint32_t move_us() const;
  /// Ends the oldest set, or any where `any`.
  plan::MovesFinished move(FakeShard& shard, bool any);
  bool locked() const { return !locks_.empty(); }
  std::uint64_t sets = 0, blocks_moved = 0, forgotten = 0;

 private:
  struct Kept {
    FakeBlock bytes;
    BlockId place = 0;
    bool damaged = false;
  };
  std::map<BlockKey, Kept>& tier(Tier of) { return of == Tier::kHost ? host_ : disk_; }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  const BlockLedger& ledger_;
  std::mt19937_64 random_;
  std::map<BlockKey, Kept> host_, disk_;
  BlockId last_place_ = 0;
  std::map<LockId, std::set<BlockKey>> locks_;
  std::deque<plan::MoveBlocks> moves_;
  std::set<BlockId> targets_;
};

}  // namespace troupe::schedule::test
