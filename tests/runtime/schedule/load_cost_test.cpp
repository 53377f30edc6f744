#include "runtime/schedule/load_cost.h"

#include <catch2/catch.hpp>

namespace troupe::schedule::test {
namespace {
using namespace std::chrono_literals;
constexpr LoadCost::TimePoint kStart{1000s};
}  // namespace

TEST_CASE("a tier that was not measured is tried with few blocks, then with more") {
  LoadCost cost(100);
  CHECK(cost.block_us(kStart) == 100);
  CHECK(cost.set_size(kStart) == LoadCost::kFirstSet);
  cost.observe(2, 200us, kStart);
  CHECK(cost.set_size(kStart) == 8);
  cost.observe(8, 800us, kStart);
  CHECK(cost.set_size(kStart) == 32);
  cost.observe(32, 3200us, kStart);
  CHECK(cost.set_size(kStart) == LoadCost::kMostBlocks);
}

TEST_CASE("a set is no longer than its time allows") {
  LoadCost cost(100);
  cost.observe(2, 8ms, kStart);
  CHECK(cost.block_us(kStart) == 4000);
  CHECK(cost.set_size(kStart) == 5);
  cost.observe(1, 1s, kStart);  // one block is always allowed: nothing would be learned else
  CHECK(cost.set_size(kStart) == 1);
}

TEST_CASE("slowness is forgotten by halves, quickness is not") {
  LoadCost cost(100);
  cost.observe(1, 800us, kStart);
  CHECK(cost.block_us(kStart + LoadCost::kHalfLife) == Approx(400));
  CHECK(cost.block_us(kStart + 2 * LoadCost::kHalfLife) == Approx(200));
  CHECK(cost.block_us(kStart + 20 * LoadCost::kHalfLife) == 100);
  CHECK(cost.set_size(kStart + LoadCost::kHalfLife) == LoadCost::kFirstSet);
  LoadCost quick(100);
  quick.observe(4, 40us, kStart);
  CHECK(quick.block_us(kStart + 20 * LoadCost::kHalfLife) == 10);
}

}  // namespace troupe::schedule::test
