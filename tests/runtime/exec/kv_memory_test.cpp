#include "runtime/exec/kv_memory.h"

#include "messages/error_reasons.h"

#include <catch2/catch.hpp>

using namespace troupe;

namespace {
constexpr std::uint64_t kBlock = 400 * 1024, kGiB = 1ULL << 30;
}

TEST_CASE("The default is 16 full contexts, or a quarter of the memory where that is less", "[kv_memory]") {
  CHECK(*exec::choose_device_blocks(kBlock, 8192, 0, 64 * kGiB) == 16 * 256);
  CHECK(*exec::choose_device_blocks(kBlock, 8191, 0, 64 * kGiB) == 16 * 256);
  CHECK(*exec::choose_device_blocks(kBlock, 8192, 0, 4 * kGiB) == kGiB / kBlock);
}

TEST_CASE("A wanted size is kept, down to two blocks and up to the memory", "[kv_memory]") {
  CHECK(*exec::choose_device_blocks(kBlock, 8192, kGiB, 64 * kGiB) == kGiB / kBlock);
  CHECK(*exec::choose_device_blocks(kBlock, 8192, 2 * kBlock, 64 * kGiB) == 2);
  const auto small = exec::choose_device_blocks(kBlock, 8192, 2 * kBlock - 1, 64 * kGiB);
  REQUIRE_FALSE(small.ok());
  CHECK(small.error().reason == ErrorReason::kNotEnoughBlocks);
  CHECK(small.error().parameter == "kv-memory");
  const auto large = exec::choose_device_blocks(kBlock, 8192, 65 * kGiB, 64 * kGiB);
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().reason == ErrorReason::kBadConfig);
  CHECK_FALSE(exec::choose_device_blocks(kBlock, 8192, 0, kBlock).ok());
}

TEST_CASE("The memory of this machine is a sane number", "[kv_memory]") { CHECK(exec::usable_memory() > (16ULL << 20)); }
