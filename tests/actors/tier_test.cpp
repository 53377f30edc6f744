// The cache tiers among themselves: write-down, a hit over three tiers, and what is left when one of them dies in the middle of either,
// when the epoch ends, when a rank fails, and when the process is told to end.
#include "actors/wire/cache.h"
#include "tests/actors/tier_bench.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <set>
#include <utility>

using namespace troupe;
using namespace troupe::test;

namespace {

bool all_stored(const TierBench& bench, Tier tier, const std::vector<BlockKey>& keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const BlockKey& key) { return bench.stored(tier, key); });
}

}  // namespace

TEST_CASE("what is published goes down to the host and on to the disk; then nothing more is sent") {
  TierBench bench;
  const auto keys = bench.publish(chain(1, 20));
  bench.advance(kWhile);
  CHECK(all_stored(bench, Tier::kHost, keys));
  CHECK(all_stored(bench, Tier::kDisk, keys));
  CHECK(bench.unlocked());
  CHECK(bench.metric("troupe:cache_tier_written_blocks_total{tier=\"host\"}") == 20);
  CHECK(bench.metric("troupe:cache_tier_written_bytes_total{tier=\"disk\"}") == 20 * 2 * 100);
  CHECK(bench.metric("troupe:cache_tier_unwritten_blocks{tier=\"device\"}") == 0);
  CHECK(bench.metric("troupe:cache_tier_unwritten_blocks{tier=\"host\"}") == 0);
  bench.log.clear();
  bench.advance(kWhile);
  CHECK(bench.log.empty());
  empty_device(bench);
  CHECK(bench.metric("troupe:cache_tier_evicted_blocks_total{tier=\"device\",written=\"yes\"}") == 20);
  CHECK(bench.metric("troupe:cache_tier_evicted_blocks_total{tier=\"device\",written=\"no\"}") == 0);
  CHECK(bench.world->impossible == 0);
}

TEST_CASE("a hit over three tiers: each goes on where the one above ends; its load ends all locks") {
  TierBench bench({.host = 8});
  const auto tokens = chain(1, 6);
  const auto keys = bench.publish(tokens);
  bench.advance(kWhile);
  bench.publish(chain(2, 5));  // the host loses the end of the first chain
  bench.advance(kWhile);
  bench.give_back(bench.lease(32 - 6));  // so does the device, but for one block
  bench.settle();
  bench.log.clear();
  auto found = bench.match(chain(1, 8));
  CHECK(found.device_blocks.size() == 1);
  CHECK(found.host_blocks.size() == 2);
  CHECK(found.disk_blocks.size() == 3);
  CHECK(found.host_tier != 0);
  CHECK(found.disk_tier != 0);
  CHECK(found.miss == kv::MissReason::kNeverSeen);
  CHECK(bench.log == std::vector<std::string>{"DeviceTier>HostTier:Match", "HostTier>DiskTier:Match", "DiskTier>HostTier:PrefixMatched",
                                              "HostTier>DeviceTier:PrefixMatched", "DeviceTier>Scheduler:PrefixMatched"});
  CHECK_FALSE(bench.unlocked());
  bench.finish_load(found, {});
  CHECK(bench.metric("troupe:cache_tier_blocks{state=\"locked\",tier=\"host\"}") == 0);
  CHECK(bench.metric("troupe:cache_tier_blocks{state=\"locked\",tier=\"disk\"}") == 0);
  CHECK(bench.metric("troupe:cache_blocks{state=\"locked\"}") == 1);
  bench.log.clear();
  bench.release(found);
  CHECK(bench.log.empty());  // nothing is left below
  CHECK(bench.unlocked());

  // Whole but for the last position.
  found = bench.match(tokens);
  CHECK(found.miss == kv::MissReason::kNone);
  SECTION("what failed to load is forgotten where it lay") {
    bench.finish_load(found, {keys[4]});
    bench.release(found);
    CHECK(bench.match(tokens).disk_blocks.size() == 1);
    CHECK(bench.metric("troupe:cache_tier_failures_total{tier=\"disk\",what=\"load\"}") == 1);
  }
  SECTION("what is not worth loading is given back, what lies on the device is kept") {
    CHECK(bench.metric("troupe:cache_tier_blocks{state=\"locked\",tier=\"host\"}") > 0);
    bench.finish_load(found, {});
    CHECK(bench.metric("troupe:cache_tier_blocks{state=\"locked\",tier=\"host\"}") == 0);
    CHECK(bench.metric("troupe:cache_tier_blocks{state=\"locked\",tier=\"disk\"}") == 0);
    CHECK(bench.metric("troupe:cache_blocks{state=\"locked\"}") == found.device_blocks.size());
    bench.release(found);
    CHECK(bench.unlocked());
  }
  SECTION("a release alone ends all") {
    bench.release(found);
    CHECK(bench.unlocked());
  }
  SECTION("released before it is answered") {
    const auto asked = bench.ask(tokens);
    bench.tell(Role::DEVICE_TIER, actors::wire::encode(kv::ReleaseBlocks{asked.epoch, {asked.lock, found.lock}, {}}));
    bench.settle();
    CHECK(bench.answer_to(asked));
    CHECK(bench.unlocked());
  }
}

TEST_CASE("a tier is asked only for what is left") {
  TierBench bench;
  const auto tokens = chain(1, 3);
  bench.publish(tokens);
  bench.advance(kWhile);
  bench.log.clear();
  bench.release(bench.match(tokens));
  CHECK(bench.log == std::vector<std::string>{"DeviceTier>Scheduler:PrefixMatched"});
  bench.log.clear();
  bench.match(chain(9, 3));  // nobody has it: one hop a tier
  CHECK(bench.log.size() == 5);
}

TEST_CASE("without tiers below nothing of this is sent") {
  TierBench bench({.host = 0, .disk = 0});
  bench.log.clear();
  bench.publish(chain(1, 20));
  bench.release(bench.match(chain(1, 25)));
  bench.advance(kWhile);
  CHECK(bench.log == std::vector<std::string>{"DeviceTier>Scheduler:BlocksLeased", "DeviceTier>Scheduler:PrefixMatched"});
  bench.drain(milliseconds{1000});
  CHECK(bench.drained);
  CHECK(bench.count("NodeSupervisor>DeviceTier:FlushTier") == 0);
}

TEST_CASE("a disk without a host stands right below the device") {
  TierBench bench({.host = 0});
  const auto keys = bench.publish(chain(1, 20));
  bench.advance(kWhile);
  CHECK(all_stored(bench, Tier::kDisk, keys));
  empty_device(bench);
  const auto found = bench.match(chain(1, 20));
  CHECK(found.disk_blocks.size() == 20);
  CHECK(found.host_tier == 0);
  bench.finish_load(found, {});
  bench.release(found);
  CHECK(bench.unlocked());
}

TEST_CASE("a host without a disk") {
  TierBench bench({.disk = 0});
  const auto keys = bench.publish(chain(1, 20));
  bench.advance(kWhile);
  CHECK(all_stored(bench, Tier::kHost, keys));
  empty_device(bench);
  CHECK(bench.match(chain(1, 20)).host_blocks.size() == 20);
}

TEST_CASE("a lease that a write-down stands in the way of is answered in full when that has ended") {
  TierBench bench;
  bench.publish(chain(1, 20));
  bench.advance(kWhile);
  bench.world->hold = true;
  const auto keys = bench.publish(chain(2, 20));
  REQUIRE(bench.metric("troupe:cache_blocks{state=\"locked\"}") == 2);
  bench.world->leased.clear();
  bench.tell(Role::DEVICE_TIER, actors::wire::encode(kv::LeaseBlocks{bench.world->epoch, LeaseId{7}, 32, true}));
  bench.settle();
  const auto& leased = bench.world->leased;
  const auto blocks = [&] {
    std::uint32_t sum = 0;
    for (const auto& answer : leased) sum += kv::count_blocks(answer.ranges);
    return sum;
  };
  REQUIRE(leased.size() == 1);
  CHECK(leased[0].more_follow);
  CHECK(blocks() < 32);
  const auto settled = [&] { return !leased.back().more_follow && blocks() == 32; };
  SECTION("it ends") {
    bench.log.clear();
    bench.release_moves();
    CHECK(settled());
    CHECK(bench.count("DeviceTier>HostTier:WriteDownWanted") == 0);  // what waited is gone by then
  }
  SECTION("the tier that writes dies") {
    bench.kill(Role::HOST_TIER);
    bench.settle();
    CHECK(settled());
  }
  SECTION("it takes too long: better too few than no answer") {
    bench.advance(milliseconds{900});
    CHECK(leased.back().more_follow);
    bench.advance(milliseconds{200});
    CHECK_FALSE(leased.back().more_follow);
    CHECK(blocks() == 30);
    bench.release_moves();
    CHECK(blocks() == 30);
  }
  SECTION("the epoch ends") {
    bench.lose_epoch();
    bench.start_epoch();
    bench.release_moves();
    bench.advance(milliseconds{1100});
    CHECK(leased.size() == 1);
    CHECK(bench.lease(32).size() == 32);
  }
}

TEST_CASE("death of a lower tier during a match: answered without it, and found again when its successor knows what there is") {
  const auto role = GENERATE(Role::HOST_TIER, Role::DISK_TIER);
  TierBench bench({.host = 8});
  const auto tokens = chain(1, 6);
  bench.publish(tokens);
  bench.advance(kWhile);
  bench.publish(chain(2, 5));
  bench.advance(kWhile);
  empty_device(bench, 6);
  bench.world->hold = true;  // the successor does not hear from the ranks yet
  const auto asked = bench.ask(tokens);
  bench.kill(role);
  bench.settle();
  const auto answer = bench.answer_to(asked);
  REQUIRE(answer);
  bench.check_found(asked, *answer);
  CHECK(answer->host_blocks.size() == (role == Role::HOST_TIER ? 0 : 2));
  CHECK(answer->disk_blocks.empty());
  bench.release(*answer);
  const auto early = bench.match(tokens);
  CHECK(early.host_blocks.size() == (role == Role::HOST_TIER ? 0 : 2));
  bench.release(early);
  bench.release_moves();
  const auto late = bench.match(tokens);
  CHECK(late.device_blocks.size() + late.host_blocks.size() + late.disk_blocks.size() == 6);
  CHECK(late.host_blocks.size() == 2);
  bench.release(late);
  CHECK(bench.unlocked());
}

TEST_CASE("death of a lower tier between a match and the end of its load: its successor knows no lock") {
  const auto role = GENERATE(Role::HOST_TIER, Role::DISK_TIER);
  TierBench bench({.host = 8});
  const auto tokens = chain(1, 6);
  const auto keys = bench.publish(tokens);
  bench.advance(kWhile);
  bench.publish(chain(2, 5));
  bench.advance(kWhile);
  empty_device(bench, 6);
  const auto found = bench.match(tokens);
  CHECK(found.disk_blocks.size() == 3);
  bench.kill(role);
  bench.settle();
  bench.finish_load(found, {keys[5]});
  bench.release(found);
  bench.advance(kWhile);
  CHECK(bench.unlocked());  // also on the disk when the host, which held the lock there, has died
}

TEST_CASE("death of a lower tier during a write: the blocks are let go, and asked for anew") {
  const auto role = GENERATE(Role::HOST_TIER, Role::DISK_TIER);
  TierBench bench;
  bench.world->hold = true;
  bench.world->hold_only = role == Role::HOST_TIER ? Tier::kHost : Tier::kDisk;
  const auto keys = bench.publish(chain(1, 20));
  bench.advance(kWhile);
  CHECK_FALSE(bench.unlocked());
  if (role == Role::HOST_TIER) CHECK(bench.metric("troupe:cache_blocks{state=\"locked\"}") == 2);
  bench.kill(role);
  bench.advance(kWhile);
  bench.release_moves();
  bench.advance(kWhile);
  CHECK(bench.unlocked());
  CHECK(all_stored(bench, Tier::kHost, keys));
  CHECK(all_stored(bench, Tier::kDisk, keys));
  CHECK(bench.metric("troupe:cache_tier_unwritten_blocks{tier=\"device\"}") == 0);
  CHECK(bench.metric("troupe:cache_tier_unwritten_blocks{tier=\"host\"}") == 0);
  empty_device(bench);
  CHECK(bench.match(chain(1, 20)).host_blocks.size() == 20);
}

TEST_CASE("a tier that keeps dying is given up: what is left goes on") {
  TierBench bench({.restarts = {.restarts = 0, .window = milliseconds{60'000}}});
  const auto keys = bench.publish(chain(1, 20));
  bench.advance(kWhile);
  SECTION("without the host the device stands on the disk") {
    bench.kill(Role::HOST_TIER);
    bench.settle();
    CHECK_FALSE(bench.find(Role::HOST_TIER));
    const auto more = bench.publish(chain(2, 5));
    bench.advance(kWhile);
    CHECK(all_stored(bench, Tier::kDisk, more));
    empty_device(bench);
    CHECK(bench.match(chain(1, 20)).disk_blocks.size() == 20);
  }
  SECTION("without the disk the host is the last") {
    bench.kill(Role::DISK_TIER);
    bench.settle();
    const auto more = bench.publish(chain(2, 5));
    bench.advance(kWhile);
    CHECK(all_stored(bench, Tier::kHost, more));
    CHECK(bench.metric("troupe:cache_tier_unwritten_blocks{tier=\"host\"}") == 0);
    bench.drain(milliseconds{1000});
    CHECK(bench.drained);  // nothing to flush to
  }
}

TEST_CASE("the end of an epoch during writes: all is void; the next one finds what the ranks have") {
  TierBench bench;
  const auto keys = bench.publish(chain(1, 20));
  bench.settle();
  bench.world->hold = true;
  bench.advance(kWhile);
  const auto asked = bench.ask(chain(1, 25));
  bench.lose_epoch();
  bench.world->hold = false;
  bench.start_epoch();
  bench.advance(kWhile);
  CHECK(bench.unlocked());
  CHECK(bench.metric("troupe:cache_tier_unwritten_blocks{tier=\"device\"}") == 0);
  const auto found = bench.match(chain(1, 20));
  CHECK(found.device_blocks.empty());
  bench.release(found);
  bench.publish(chain(1, 20));
  bench.advance(kWhile);
  CHECK(all_stored(bench, Tier::kDisk, keys));
  CHECK(bench.unlocked());
  CHECK(bench.world->impossible == 0);
}

TEST_CASE("a block that one rank could not write is on none, and is not tried again") {
  TierBench bench;
  bench.world->fails = [failed = false](std::uint16_t rank, const plan::BlockMove& move) mutable {
    return rank == 1 && move.to == Tier::kHost && move.target == 2 && !std::exchange(failed, true);
  };
  const auto keys = bench.publish(chain(1, 5));
  bench.advance(kWhile);
  CHECK(bench.unlocked());
  CHECK(bench.metric("troupe:cache_tier_failures_total{tier=\"host\",what=\"write\"}") == 1);
  CHECK_FALSE(bench.stored(Tier::kDisk, keys[2]));
  CHECK(bench.stored(Tier::kDisk, keys[4]));
  empty_device(bench);
  CHECK(bench.match(chain(1, 5)).host_blocks.size() == 2);
  CHECK(bench.metric("troupe:cache_tier_evicted_blocks_total{tier=\"device\",written=\"no\"}") == 1);
}

TEST_CASE("a drain writes down what is left, as far as its time goes") {
  TierBench bench;
  const auto keys = bench.publish(chain(1, 1));  // too few to be asked for at once
  CHECK_FALSE(bench.stored(Tier::kHost, keys[0]));
  SECTION("there is time") {
    bench.drain(milliseconds{1000});
    CHECK(bench.drained);
    CHECK(all_stored(bench, Tier::kDisk, keys));
  }
  SECTION("the disk is too slow") {
    bench.world->hold = true;
    bench.drain(milliseconds{1000});
    bench.advance(milliseconds{900});
    CHECK_FALSE(bench.drained);
    bench.advance(milliseconds{200});
    CHECK(bench.drained);
  }
  SECTION("a second signal") {
    bench.world->hold = true;
    bench.drain(milliseconds{1000});
    CHECK_FALSE(bench.drained);
    bench.drain(milliseconds{100});
    CHECK(bench.drained);
  }
  SECTION("a tier dies") {
    const auto role = GENERATE(Role::DEVICE_TIER, Role::HOST_TIER, Role::DISK_TIER);
    bench.world->hold = true;
    bench.drain(milliseconds{1000});
    bench.kill(role);
    bench.advance(milliseconds{1100});
    CHECK(bench.drained);
  }
}

TEST_CASE("whatever dies and fails: what is found is there, each match is answered, and no lock stays") {
  std::size_t deep = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned bound) { return random() % bound; };
    TierBench bench({.device = 24, .host = seed % 4 == 0 ? 0U : 12U, .disk = seed % 5 == 0 ? 0U : 30U});
    bench.world->fails = [&](std::uint16_t, const plan::BlockMove&) { return below(12) == 0; };
    const auto any_chain = [&] { return chain(1 + below(5), 1 + below(7), 1 + below(31)); };
    std::vector<std::pair<kv::Match, GroupEpoch>> asked;
    for (int round = 0; round < 150; ++round) {
      switch (below(12)) {
        case 0:
        case 1: bench.publish(any_chain()); break;
        case 2: bench.give_back(bench.lease(below(24))); break;
        case 3:
        case 4:
        case 5: asked.emplace_back(bench.ask(any_chain()), bench.world->epoch); break;
        case 6:
          if (below(3) == 0) bench.kill(below(2) == 0 ? Role::HOST_TIER : Role::DISK_TIER);
          break;
        case 7: bench.world->hold = true; break;
        case 8:
          bench.release_moves();
          bench.advance(milliseconds{60});
          break;
        case 9: bench.advance(milliseconds{20}); break;
        case 10:
          if (below(6) == 0) {
            bench.settle();
            bench.lose_epoch();
            bench.start_epoch();
          }
          break;
        default: bench.settle();
      }
      for (auto at = asked.begin(); at != asked.end();) {
        const auto answer = bench.answer_to(at->first);
        if (!answer && at->second == bench.world->epoch) {
          ++at;
          continue;
        }
        if (answer && at->second == bench.world->epoch) {
          if (answer->host_blocks.size() + answer->disk_blocks.size() > 0) {
            ++deep;
            bench.finish_load(*answer, below(4) == 0 ? std::vector{at->first.keys[answer->device_blocks.size()]} : std::vector<BlockKey>{});
          }
          bench.release(*answer);
        }
        at = asked.erase(at);
      }
    }
    bench.release_moves();
    bench.world->fails = {};
    for (const auto& [match, epoch] : asked) {
      const auto answer = bench.answer_to(match);
      if (epoch != bench.world->epoch) continue;
      REQUIRE(answer);
      bench.release(*answer);
    }
    bench.advance(kWhile);
    CHECK(bench.unlocked());
    for (TokenId name = 1; name <= 5; ++name) bench.release(bench.match(chain(name, 7)));
    CHECK(bench.unlocked());
  }
  CHECK(deep > 100);  // runs below the device
}
