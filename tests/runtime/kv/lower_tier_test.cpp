// LowerTier, told as the protocol's stories: write-down, a hit, failures, a restart.
#include "runtime/kv/lower_tier.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace troupe::kv {
namespace {

constexpr GroupEpoch kEpoch{3};
constexpr Incarnation kTier = 99;
using Keys = std::vector<BlockKey>;

/// `count` keys of a chain.
Keys chain(std::uint64_t name, std::uint64_t count) {
  Keys keys;
  for (std::uint64_t i = 0; i < count; ++i) keys.push_back({name, i + 1});
  return keys;
}
Keys part(const Keys& keys, std::size_t from, std::size_t to) {
  return {keys.begin() + static_cast<std::ptrdiff_t>(from), keys.begin() + static_cast<std::ptrdiff_t>(to)};
}

/// A tier with what those around it would say.
struct Neighbours {
  LowerTier tier;
  std::uint64_t last_lock = 0;
  explicit Neighbours(std::uint32_t blocks, std::uint32_t writing = 256, std::uint32_t waiting = 4096)
      : tier({kTier, blocks, writing, waiting}) {
    tier.begin_epoch(kEpoch);
    tier.adopt_inventory(kEpoch, {});
  }
  WrittenDown want(const Keys& keys, bool soon = false) {
    WriteDownWanted wanted{kEpoch, {}, soon};
    for (std::size_t i = 0; i < keys.size(); ++i)
      wanted.blocks.push_back({keys[i], i == 0 ? BlockKey{} : keys[i - 1], static_cast<BlockId>(keys[i].low)});
    return tier.want(wanted);
  }
  WrittenDown finish(const std::vector<TierWrite>& writes, std::vector<std::uint32_t> failed = {}) {
    TierMovesFinished moves{kEpoch, kTier, {}, std::move(failed)};
    for (const TierWrite& write : writes) moves.blocks.push_back({write.key, write.place});
    const WrittenDown answer = tier.finish_writes(moves);
    tier.check_invariants();
    return answer;
  }
  /// Wants and writes; all must go well.
  std::vector<BlockId> write(const Keys& keys) {
    want(keys);
    const auto started = tier.start_writes();
    REQUIRE(started.answered.failed.empty());
    finish(started.writes);
    std::vector<BlockId> places;
    for (const TierWrite& write : started.writes) places.push_back(write.place);
    return places;
  }
  struct Run {
    LockId lock;
    std::vector<BlockId> places;
  };
  Run match(const Keys& keys, std::uint32_t first = 0, std::uint32_t most = kNone32) {
    Match request;
    request.epoch = kEpoch;
    request.lock = LockId{++last_lock};
    request.first_block = first;
    request.keys = keys;
    request.max_tokens = most;
    Run run{request.lock, tier.match(request)};
    tier.check_invariants();
    return run;
  }
  void release(const Run& run) {
    tier.release({kEpoch, {run.lock}, {}});
    tier.check_invariants();
  }
  std::size_t held(const Keys& keys) {
    const Run run = match(keys);
    release(run);
    return run.places.size();
  }
};

}  // namespace

TEST_CASE("a published block is written down: matched only when all ranks have it") {
  Neighbours host(8);
  const Keys keys = chain(1, 3);
  CHECK(host.want(keys).keys.empty());
  const auto started = host.tier.start_writes();
  REQUIRE(started.writes.size() == 3);
  CHECK(started.writes[0] == TierWrite{keys[0], 1, 0});
  CHECK(started.writes[2].place == 2);  // neighbours: one large write
  CHECK(host.held(keys) == 0);
  CHECK(host.want(keys).keys.empty());  // in flight: answered once, when they have ended
  CHECK(host.tier.start_writes().writes.empty());
  CHECK(host.finish(started.writes).keys == keys);
  CHECK(host.held(keys) == 3);
  CHECK(host.want(keys).keys == keys);  // here already
  CHECK(host.tier.start_writes().writes.empty());
  CHECK(host.tier.stats().stored == 3);
}

TEST_CASE("a hit continues the run above, is locked, and given back") {
  Neighbours host(8);
  const Keys keys = chain(1, 5);
  const auto places = host.write(part(keys, 0, 4));
  const auto run = host.match(part(keys, 1, 5), 1);  // the device has the first
  CHECK(run.places == std::vector<BlockId>(places.begin() + 1, places.end()));
  CHECK(host.tier.stats().locked == 3);
  host.release(run);
  CHECK(host.tier.stats().locked == 0);
  CHECK(host.match(keys, 0, 2 * kBlockTokens + 5).places.size() == 2);  // no further than asked
  CHECK(host.match(part(keys, 4, 5), 4).places.empty());
}

TEST_CASE("room is made of the least recently used leaves, never of what is locked or of a block's own chain") {
  Neighbours host(6);
  const Keys a = chain(1, 4), b = chain(2, 3), c = chain(3, 2);
  host.write(part(a, 0, 3));
  host.write(b);
  CHECK(host.held(part(a, 0, 3)) == 3);  // used after b
  const auto locked = host.match(part(b, 0, 1));
  host.write(c);  // b's second and third go
  CHECK(host.held(b) == 1);
  CHECK(host.held(part(a, 0, 3)) == 3);
  CHECK(host.held(c) == 2);
  host.release(locked);
  host.match(c);  // locked from here on
  host.write(a);  // the fourth needs a place: the lone b, not a's own leaf
  CHECK(host.held(a) == 4);
  CHECK(host.held(b) == 0);
  CHECK(host.tier.stats().evicted_blocks == 3);

  host.want(chain(4, 6));  // more than can be had: the start of the chain gets it
  const auto started = host.tier.start_writes();
  CHECK(started.writes.size() == 4);
  CHECK(started.answered.failed == part(chain(4, 6), 4, 6));
}

TEST_CASE("writes: soon ones first, bounded in flight, and what no queue holds is refused") {
  Neighbours disk(16, 2, 4);
  const Keys background = chain(1, 2), stored = chain(2, 1), pinned = chain(3, 1);
  CHECK(disk.want(background).failed.empty());
  CHECK(disk.want(pinned).failed.empty());
  CHECK(disk.want(stored, true).failed.empty());
  REQUIRE(disk.tier.pin({1, 1}, pinned, 100));  // while it waits
  CHECK(disk.want(chain(4, 1)).failed == chain(4, 1));
  const auto first = disk.tier.start_writes();
  REQUIRE(first.writes.size() == 2);
  CHECK(first.writes[0].key == stored[0]);
  CHECK(first.writes[1].key == pinned[0]);
  CHECK(disk.tier.start_writes().writes.empty());
  CHECK(disk.tier.stats().waiting == 2);
  disk.finish({first.writes[1]});
  const auto second = disk.tier.start_writes();
  REQUIRE(second.writes.size() == 1);
  CHECK(second.writes[0].key == background[0]);
}

TEST_CASE("a write that one rank failed is a miss on all, and its place is free") {
  Neighbours disk(4);
  const Keys keys = chain(1, 3);
  disk.want(keys);
  const auto started = disk.tier.start_writes();
  const WrittenDown written = disk.finish(started.writes, {1});
  CHECK(written.keys == Keys{keys[0], keys[2]});
  CHECK(written.failed == Keys{keys[1]});
  CHECK(disk.held(keys) == 1);
  CHECK(disk.tier.stats().free == 2);
  CHECK(disk.match(part(keys, 2, 3), 2).places.size() == 1);  // the third goes on where the device has the second,
  disk.write(keys);
  CHECK(disk.held(keys) == 3);  // and is matched in its chain as soon as that is whole again
}

TEST_CASE("a load that failed forgets the block; its place is free when the last lock ends") {
  Neighbours disk(4);
  const Keys keys = chain(1, 2);
  const auto places = disk.write(keys);
  const auto one = disk.match(keys), other = disk.match(keys);
  disk.tier.finish_load({kEpoch, one.lock, {keys[1]}});
  disk.tier.check_invariants();
  CHECK(disk.held(keys) == 1);
  CHECK(disk.tier.stats().locked == 2);  // by the other
  disk.write(keys);                      // it comes back, elsewhere: others may still read the old place
  const auto anew = disk.match(part(keys, 1, 2), 1);
  CHECK(anew.places.front() != places[1]);
  disk.release(anew);
  CHECK(disk.tier.stats().free == 1);
  disk.tier.finish_load({kEpoch, other.lock, {keys[1]}});  // the other's load fails, too: about the old place
  disk.tier.finish_load({kEpoch, other.lock, {keys[0]}});  // ended
  disk.tier.check_invariants();
  CHECK(disk.held(keys) == 2);
  CHECK(disk.tier.stats().free == 2);
  CHECK(disk.tier.stats().locked == 0);
  CHECK(disk.tier.stats().failed_loads == 1);
}

TEST_CASE("a pinned path is not evicted before its time, and only half of the tier can be pinned") {
  Neighbours disk(4);
  const Keys kept = chain(1, 2);
  disk.write(kept);
  REQUIRE(disk.tier.pin({1, 1}, kept, 50));
  const auto refused = disk.tier.pin({1, 2}, chain(2, 1), 50);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().client_text.find("limit of 2") != std::string::npos);
  disk.write(chain(3, 2));
  disk.write(chain(4, 2));
  CHECK(disk.held(kept) == 2);
  CHECK(disk.held(chain(3, 2)) == 0);
  disk.tier.expire(49);
  disk.write(chain(5, 2));
  CHECK(disk.held(kept) == 2);
  disk.tier.expire(50);
  disk.match(chain(5, 2));  // locked
  disk.write(chain(6, 2));
  CHECK(disk.held(kept) == 0);
  REQUIRE(disk.tier.pin({1, 1}, kept, 60));  // not here: pinned when it comes
  CHECK(disk.tier.stats().pinned_keys == 2);
  disk.tier.unpin({1, 1});
  CHECK(disk.tier.stats().pinned_keys == 0);
}

TEST_CASE("a restart finds what all ranks have in the same place") {
  Neighbours disk(6);
  const Keys keys = chain(1, 6);
  // Neither list is in order; the ages are.
  const std::vector<InventoryEntry> rank0{{keys[0], 0, 9}, {keys[2], 3, 4}, {keys[1], 1, 9},
                                          {keys[2], 2, 5}, {keys[3], 4, 3}, {keys[5], 9, 1}};
  const std::vector<InventoryEntry> rank1{{keys[2], 3, 7}, {keys[4], 4, 3}, {keys[2], 2, 6},
                                          {keys[1], 1, 9}, {keys[0], 0, 9}, {keys[5], 9, 1}};
  disk.want(part(keys, 0, 1));
  disk.tier.begin_epoch(GroupEpoch{4});
  CHECK(disk.tier.stats().waiting == 0);
  disk.tier.want({GroupEpoch{4}, {{keys[1], keys[0], 7}}, false});
  CHECK(disk.tier.start_writes().writes.empty());  // not before the inventory is known
  disk.tier.adopt_inventory(kEpoch, std::vector{rank0, rank1});
  CHECK(disk.tier.stats().stored == 0);  // of another epoch
  disk.tier.adopt_inventory(GroupEpoch{4}, std::vector{rank0, rank1});
  disk.tier.check_invariants();
  CHECK(disk.tier.stats().stored == 3);
  CHECK(disk.tier.start_writes().answered.keys == Keys{keys[1]});  // no need to write it again
  Match request;
  request.epoch = GroupEpoch{4};
  request.lock = LockId{1};
  request.keys = keys;
  request.max_tokens = kNone32;
  CHECK(disk.tier.match(request) == std::vector<BlockId>{0, 1, 3});  // of the two places the one used last
}

TEST_CASE("parents are remembered from one epoch to the next") {
  Neighbours disk(3);
  const Keys keys = chain(1, 3);
  const auto places = disk.write(keys);
  std::vector<InventoryEntry> rank;
  for (std::size_t i = 0; i < 3; ++i) rank.push_back({keys[i], places[i], 5});  // the root looks oldest
  disk.tier.begin_epoch(kEpoch);
  disk.tier.adopt_inventory(kEpoch, std::vector<std::vector<InventoryEntry>>{rank});
  disk.write(chain(2, 1));
  CHECK(disk.held(keys) == 2);
}

TEST_CASE("parents that nobody knows are learned from a match") {
  Neighbours disk(3);
  const Keys keys = chain(1, 3);
  disk.tier.begin_epoch(kEpoch);
  disk.tier.adopt_inventory(kEpoch, std::vector<std::vector<InventoryEntry>>{{{keys[0], 0, 5}, {keys[1], 1, 5}, {keys[2], 2, 5}}});
  CHECK(disk.held(keys) == 3);
  disk.release(disk.match(part(keys, 1, 3), 1));  // now the root is the one used longest ago
  disk.write(chain(2, 1));
  CHECK(disk.held(keys) == 2);
}

TEST_CASE("what is cleared goes at once, or with its lock, or with its write") {
  Neighbours host(8);
  const Keys locked = chain(1, 2), idle = chain(2, 2), writing = chain(3, 2);
  host.write(locked);
  host.write(idle);
  const auto run = host.match(locked);
  host.want(writing);
  const auto started = host.tier.start_writes();
  host.tier.clear();
  host.tier.check_invariants();
  CHECK(host.tier.stats().free == 4);
  CHECK(host.held(locked) + host.held(idle) == 0);
  host.want(writing);  // once more, while the first write runs
  const auto again = host.tier.start_writes();
  CHECK(again.writes.size() == 2);
  CHECK(host.finish(started.writes).failed == writing);
  CHECK(host.finish(again.writes).keys == writing);
  host.release(run);
  CHECK(host.tier.stats().free == 6);
  CHECK(host.tier.stats().locked == 0);
}

TEST_CASE("what is written goes on to the tier below, held until it is there") {
  Neighbours host(32);
  host.tier.begin_epoch(kEpoch, true);
  host.tier.adopt_inventory(kEpoch, {});
  const Keys keys = chain(1, 4);
  const auto places = host.write(keys);
  CHECK(host.tier.stats().unwritten == 4);
  const auto wanted = host.tier.next_write_downs();
  host.tier.check_invariants();
  REQUIRE(wanted.blocks.size() == 2);  // a sixteenth of the tier at a time
  CHECK(wanted.tier == kTier);
  CHECK(wanted.blocks[1].key == keys[1]);
  CHECK(wanted.blocks[1].parent == keys[0]);
  CHECK(wanted.blocks[1].source == places[1]);
  CHECK(host.tier.next_write_downs().blocks.empty());
  CHECK(host.tier.stats().locked == 2);
  host.tier.written_down({kEpoch, {keys[0]}, {keys[1]}});
  CHECK(host.tier.stats().locked == 0);
  CHECK(host.tier.next_write_downs().blocks.size() == 2);
  host.tier.tier_below_lost(false);
  host.tier.check_invariants();
  CHECK(host.tier.stats().locked == 0);
  CHECK(host.tier.stats().unwritten == 2);
  host.write(chain(2, 31));  // all of the first chain go but the one that was written: what waits is passed over
  CHECK(host.tier.stats().unwritten == 31);
  CHECK(host.tier.stats().evicted_blocks == 3);
  CHECK(host.tier.stats().dropped_blocks == 0);
  CHECK(host.held(keys) == 1);
  host.tier.tier_below_lost(true);
  host.write(chain(3, 1));
  CHECK(host.tier.stats().unwritten == 0);
}

TEST_CASE("a block that is forgotten while it is written down") {
  Neighbours host(16);
  host.tier.begin_epoch(kEpoch, true);
  host.tier.adopt_inventory(kEpoch, {});
  const Keys keys = chain(1, 1);
  host.write(keys);
  CHECK(host.tier.next_write_downs().blocks.size() == 1);
  const auto run = host.match(keys);
  host.tier.finish_load({kEpoch, run.lock, keys});
  host.write(keys);  // here again, in another place
  host.tier.check_invariants();
  CHECK(host.tier.stats().unwritten == 2);
  if (GENERATE(true, false))
    host.tier.written_down({kEpoch, keys, {}});
  else
    host.tier.tier_below_lost(false);
  host.tier.check_invariants();
  CHECK(host.tier.stats().locked == 0);
  CHECK(host.tier.stats().free == 15);
  CHECK(host.tier.stats().unwritten == 1);
}

TEST_CASE("a block that is here again before the tier below has answered is not asked for twice at a time") {
  Neighbours host(64);  // asks for four at a time
  host.tier.begin_epoch(kEpoch, true);
  host.tier.adopt_inventory(kEpoch, {});
  const Keys keys = chain(1, 1), other = chain(2, 1);
  host.write(keys);
  REQUIRE(host.tier.next_write_downs().blocks.size() == 1);
  const auto run = host.match(keys);
  host.tier.finish_load({kEpoch, run.lock, keys});
  host.write(keys);
  host.write(other);
  const auto wanted = host.tier.next_write_downs();
  REQUIRE(wanted.blocks.size() == 1);
  CHECK(wanted.blocks[0].key == other[0]);
  host.tier.written_down({kEpoch, {}, {keys[0], other[0]}});  // one answer a key
  host.tier.check_invariants();
  CHECK(host.tier.stats().locked == 0);
  CHECK(host.tier.stats().unwritten == 0);
}

TEST_CASE("an inventory is offered to the tier below; the death of the holder voids its locks and wishes") {
  Neighbours host(16);
  const Keys keys = chain(1, 2);
  host.tier.begin_epoch(GroupEpoch{4}, true);
  host.tier.adopt_inventory(GroupEpoch{4}, std::vector<std::vector<InventoryEntry>>{{{keys[0], 3, 9}, {keys[1], 5, 8}}});
  const auto wanted = host.tier.next_write_downs();
  REQUIRE(wanted.blocks.size() == 1);
  CHECK(wanted.blocks[0].key == keys[0]);
  CHECK(wanted.blocks[0].source == 3);
  host.tier.written_down({GroupEpoch{4}, keys, {}});
  Match request;
  request.epoch = GroupEpoch{4};
  request.keys = keys;
  request.max_tokens = kNone32;
  for (std::uint64_t lock : {1, 2}) {
    request.lock = LockId{lock};
    CHECK(host.tier.match(request).size() == 2);
  }
  host.tier.want({GroupEpoch{4}, {{{9, 9}, {}, 7}}, false});
  host.tier.holder_lost();
  host.tier.check_invariants();
  CHECK(host.tier.stats().locked == 0);
  CHECK(host.tier.stats().waiting == 0);
  CHECK(host.tier.start_writes().writes.empty());
}

TEST_CASE("messages of another epoch or of an earlier life are dropped") {
  Neighbours host(4);
  const Keys keys = chain(1, 2);
  host.want(keys);
  const auto writes = host.tier.start_writes().writes;
  const TierMovesFinished older{kEpoch, kTier - 1, {{keys[0], writes[0].place}}, {}};
  CHECK(host.tier.finish_writes(older).keys.empty());
  CHECK(host.tier.stats().writing == 2);
  host.finish(writes);
  const auto run = host.match(keys);
  host.tier.finish_load({GroupEpoch{2}, run.lock, {keys[0]}});
  CHECK(host.tier.stats().stored == 2);
  host.tier.begin_epoch(GroupEpoch{4});
  host.release(run);
  CHECK(host.match(keys).places.empty());
  CHECK(host.want(keys).keys.empty());
  CHECK(host.finish(writes).keys.empty());
  CHECK(host.tier.stats().free == 4);
}

TEST_CASE("a tier of no places refuses, and one that is told nonsense is caught") {
  Neighbours none(0);
  none.want(chain(1, 2));
  CHECK(none.tier.start_writes().answered.failed == chain(1, 2));
  CHECK(none.match(chain(1, 2)).places.empty());
  Neighbours host(4);
  CHECK_THROWS_AS(host.tier.finish_writes({kEpoch, kTier, {{BlockKey{1, 1}, 2}}, {}}), InvariantViolation);
  CHECK_THROWS_AS(host.tier.finish_writes({kEpoch, kTier, {}, {0}}), InvariantViolation);
}

}  // namespace troupe::kv
