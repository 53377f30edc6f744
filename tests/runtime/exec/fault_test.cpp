#include "runtime/exec/shard_engine.h"

#include <catch2/catch.hpp>

#include <thread>

using namespace troupe;

namespace {

/// Polls of one step with two segments.
void poll_step(const exec::FaultHook& hook, const std::atomic<bool>& abort) {
  hook(1, 0, abort);
  hook(1, 1, abort);
}

}  // namespace

TEST_CASE("No spec, no hook", "[fault]") {
  const auto hook = exec::parse_fault("");
  REQUIRE(hook.ok());
  CHECK_FALSE(hook->step);
  CHECK(hook->slow.bytes_per_second == 0);
}

TEST_CASE("A bad spec is refused with what is allowed", "[fault]") {
  for (const char* spec : {"throw", "throw:", "throw:0", "throw:x", "throw:1x", "crash:3", ":", "stall:-1", "hang:99999999999999999999",
                           "slow-disk:0", "slow-host:", "slow:3", "slow-disk:10000000000"}) {
    CAPTURE(spec);
    const auto hook = exec::parse_fault(spec);
    REQUIRE_FALSE(hook.ok());
    CHECK(hook.error().client_text.find("throw:N") != std::string::npos);
    CHECK(hook.error().parameter == "fault");
  }
}

TEST_CASE("throw:3 throws in the middle of every third step, over the life of the shard", "[fault]") {
  const auto hook = exec::parse_fault("throw:3");
  REQUIRE(hook.ok());
  const std::atomic<bool> abort{false};
  for (int i = 0; i < 4; ++i) {
    CHECK_NOTHROW(poll_step(hook->step, abort));
    CHECK_NOTHROW(poll_step(hook->step, abort));
    CHECK_NOTHROW(hook->step(1, 0, abort));
    CHECK_THROWS(hook->step(1, 1, abort));
  }
}

TEST_CASE("stall:1 waits for the abort flag and obeys it", "[fault]") {
  const auto hook = exec::parse_fault("stall:1");
  REQUIRE(hook.ok());
  std::atomic<bool> abort{false}, returned{false};
  std::thread compute([&] {
    poll_step(hook->step, abort);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(returned);
  abort = true;
  compute.join();
  CHECK(returned);
}

TEST_CASE("slow-disk:N and slow-host:N slow a store down, and no step", "[fault]") {
  const auto disk = exec::parse_fault("slow-disk:40"), host = exec::parse_fault("slow-host:7");
  REQUIRE((disk.ok() && host.ok()));
  CHECK_FALSE(disk->step);
  CHECK(disk->slow.tier == Tier::kDisk);
  CHECK(disk->slow.bytes_per_second == 40'000'000);
  CHECK(host->slow.tier == Tier::kHost);
  CHECK(host->slow.bytes_per_second == 7'000'000);
}
