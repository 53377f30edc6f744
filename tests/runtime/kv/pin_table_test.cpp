#include "runtime/kv/pin_table.h"

#include <catch2/catch.hpp>

namespace troupe::kv {
namespace {
constexpr BlockKey kRoot{1, 0}, kLeft{2, 0}, kRight{3, 0}, kDeep{4, 0};
constexpr PinName kA{7, 1}, kB{7, 2}, kOtherGateway{8, 1};
}  // namespace

TEST_CASE("a shared start stays pinned until the last pin through it ends") {
  PinTable pins(10);
  CHECK(pins.pin(kA, std::vector{kRoot, kLeft}, 100)->pinned == std::vector{kRoot, kLeft});
  CHECK(pins.pin(kB, std::vector{kRoot, kRight}, 200)->pinned == std::vector{kRight});
  CHECK(pins.pin(kOtherGateway, std::vector{kRoot}, 300)->pinned.empty());
  CHECK(pins.blocks() == 3);
  pins.check_invariants();
  CHECK(pins.expire(99).empty());
  CHECK(pins.expire(100) == std::vector{kLeft});
  CHECK(pins.unpin(kA).empty());  // it has ended
  CHECK(pins.unpin(kOtherGateway).empty());
  CHECK(pins.contains(kRoot));
  CHECK(pins.unpin(kB) == std::vector{kRight, kRoot});
  CHECK(pins.blocks() == 0);
  pins.check_invariants();
}

TEST_CASE("a pin is renewed under its name, and takes another path with it") {
  PinTable pins(10);
  REQUIRE(pins.pin(kA, std::vector{kRoot, kLeft}, 100));
  REQUIRE(pins.pin(kA, std::vector{kRoot, kLeft}, 200));
  CHECK(pins.expire(150).empty());
  const auto moved = pins.pin(kA, std::vector{kRoot, kLeft, kDeep}, 300);
  CHECK(moved->pinned == std::vector{kDeep});
  CHECK(moved->unpinned.empty());
  CHECK(pins.pin(kA, std::vector{kRoot, kRight}, 400)->unpinned == std::vector{kDeep, kLeft});
  CHECK(pins.pin(kA, {}, 500)->unpinned == std::vector{kRight, kRoot});
  pins.check_invariants();
}

TEST_CASE("pins beyond the limit are refused by name and number, and change nothing") {
  PinTable pins(3);
  REQUIRE(pins.pin(kA, std::vector{kRoot, kLeft}, 100));
  REQUIRE(pins.pin(kB, std::vector{kRoot, kRight}, 100));  // shares a block: three in all
  const auto refused = pins.pin(kB, std::vector{kRoot, kRight, kDeep}, 900);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().parameter == "pin");
  CHECK(refused.error().client_text.find("limit of 3") != std::string::npos);
  CHECK(pins.blocks() == 3);
  CHECK_FALSE(pins.contains(kDeep));
  CHECK(pins.expire(100).size() == 3);  // B kept its first time
  CHECK_FALSE(PinTable(0).pin(kA, std::vector{kRoot}, 1));
}

TEST_CASE("the number of pins is bounded, however few blocks they name") {
  PinTable pins(1);
  for (std::uint64_t number = 0; number < PinTable::kMostPins; ++number) REQUIRE(pins.pin({1, number}, std::vector{kRoot}, 10));
  CHECK_FALSE(pins.pin({2, 0}, std::vector{kRoot}, 10));
  CHECK(pins.pin({1, 5}, std::vector{kRoot}, 20));  // one that is there can be renewed
  CHECK(pins.expire(10).empty());
  CHECK(pins.expire(20) == std::vector{kRoot});
}

}  // namespace troupe::kv
