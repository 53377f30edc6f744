#include "messages/error.h"
#include "runtime/kv/block_pool.h"

#include <catch2/catch.hpp>

#include <random>
#include <set>

namespace troupe::kv {

TEST_CASE("a lease is one range while one is long enough") {
  BlockPool pool;
  pool.reset(20);
  CHECK(pool.lease(6) == std::vector<BlockRange>{{0, 6}});
  CHECK(pool.lease(4) == std::vector<BlockRange>{{6, 4}});
  for (BlockId block : {1, 2, 3}) pool.change(block, BlockState::kLeased, BlockState::kFree);
  CHECK(pool.lease(2) == std::vector<BlockRange>{{1, 2}});  // the smallest range that holds both
  CHECK(pool.lease(10) == std::vector<BlockRange>{{10, 10}});
  CHECK(pool.lease(5) == std::vector<BlockRange>{{3, 1}});  // fewer than wanted
  CHECK(pool.lease(1).empty());
  pool.check_invariants();
}

TEST_CASE("free neighbours join") {
  BlockPool pool;
  pool.reset(8);
  pool.lease(8);
  for (BlockId block : {2, 4, 3, 7, 0}) pool.change(block, BlockState::kLeased, BlockState::kFree);
  pool.check_invariants();
  CHECK(pool.lease(3) == std::vector<BlockRange>{{2, 3}});
}

TEST_CASE("a block changes only from the state it is in") {
  BlockPool pool;
  pool.reset(2);
  CHECK_THROWS_AS(pool.change(0, BlockState::kFree, BlockState::kLeased), InvariantViolation);
  CHECK_THROWS_AS(pool.change(0, BlockState::kLeased, BlockState::kFree), InvariantViolation);
  CHECK_THROWS_AS(pool.change(2, BlockState::kLeased, BlockState::kFree), InvariantViolation);
}

TEST_CASE("random leases and returns keep the pool whole") {
  BlockPool pool;
  pool.reset(64);
  std::mt19937 random(5);
  std::set<BlockId> leased;
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 == 0) {
      for (const BlockRange& range : pool.lease(random() % 9))
        for (BlockId block = range.first; block < range.first + range.count; ++block) REQUIRE(leased.insert(block).second);
    } else if (!leased.empty()) {
      auto block = leased.lower_bound(static_cast<BlockId>(random() % 64));
      if (block == leased.end()) block = leased.begin();
      pool.change(*block, BlockState::kLeased, BlockState::kFree);
      leased.erase(block);
    }
    pool.check_invariants();
    REQUIRE(pool.count(BlockState::kLeased) == leased.size());
  }
}

}  // namespace troupe::kv
