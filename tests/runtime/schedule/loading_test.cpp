// Loading a prefix from tiers below the device: used where it is cheaper than computing, never waited for beyond that, and given up without
// a trace where it fails, its request ends, or the group is lost.
#include "runtime/schedule/load_cost.h"
#include "tests/runtime/schedule/replica_harness.h"

#include <catch2/catch.hpp>

namespace troupe::schedule::test {
namespace {
using namespace std::chrono_literals;

constexpr std::uint32_t kPromptBlocks = 40, kPrompt = kPromptBlocks * kBlockTokens + 5;

SchedulerOptions options_of() {
  SchedulerOptions options;
  options.token_budget = 64;
  options.min_chunk = 8;
  options.eos = {kEos};
  return options;
}

/// A replica whose device has forgotten a prompt that the tiers below have.
struct ColdReplica {
  explicit ColdReplica(std::uint32_t host_percent, std::uint32_t disk_percent) : replica(options_of()) {
    replica.below().keeps_host = host_percent;
    replica.below().keeps_disk = disk_percent;
    replica.ready(200, 4096);
    replica.submit(make_request(1, make_prompt(1, kPrompt), 4));
    replica.run_to_idle();
    replica.lose();
    replica.ready(200, 4096);
    replica.below().keeps_host = replica.below().keeps_disk = 0;
  }
  const kv::CacheReport& turn(std::uint64_t number) {
    replica.submit(make_request(number, make_prompt(1, kPrompt), 4));
    replica.run_to_idle();
    replica.check_outcome(number);
    replica.check_conservation();
    return *replica.outcome(number).report;
  }
  void forget_device() {
    replica.lose();
    replica.ready(200, 4096);
  }
  ReplicaHarness replica;
};

}  // namespace

TEST_CASE("a prefix on the host is loaded, published, and reported") {
  ColdReplica cold(100, 0);
  const std::uint64_t computed = cold.replica.scheduler().stats().prompt_tokens;
  const auto report = cold.turn(2);
  CHECK(report.tokens == kv::TierTokens{0, kPromptBlocks * kBlockTokens, 0, 5});
  CHECK(report.miss == kv::MissReason::kNone);
  CHECK(report.load_us >= kPromptBlocks * cold.replica.below().host_block_us);
  CHECK(cold.replica.scheduler().stats().prompt_tokens == computed + 5);
  CHECK(cold.replica.below().sets > 1);                                // the first ones are small
  CHECK(cold.turn(3).tokens == kv::TierTokens{kPrompt - 1, 0, 0, 1});  // the device has it now
}

TEST_CASE("host and disk continue each other") {
  ColdReplica cold(0, 100);
  TiersBelow& below = cold.replica.below();
  const auto request = make_request(9, make_prompt(1, kPrompt), 1);
  // The host has the first half.
  ReplicaHarness other(options_of());
  other.below().keeps_host = 100;
  other.ready(200, 4096);
  other.submit(make_request(1, make_prompt(1, kPrompt), 1));
  other.run_to_idle();
  for (std::uint32_t i = 0; i < kPromptBlocks / 2; ++i)
    below.keep(Tier::kHost, request.keys[i], other.below().bytes(Tier::kHost, request.keys[i]));
  const auto report = cold.turn(2);
  CHECK(report.tokens == kv::TierTokens{0, kPromptBlocks / 2 * kBlockTokens, kPromptBlocks / 2 * kBlockTokens, 5});
}

TEST_CASE("a disk slower than computing costs a few blocks once, then nothing") {
  ColdReplica cold(0, 100);
  cold.replica.below().disk_block_us = 50'000;
  const auto first = cold.turn(2);
  CHECK(first.tokens.disk <= LoadCost::kFirstSet * kBlockTokens);
  CHECK(first.miss == kv::MissReason::kCheaperToCompute);
  cold.forget_device();
  const auto second = cold.turn(3);
  CHECK(second.tokens.disk == 0);
  CHECK(second.load_us == 0);
  CHECK(second.miss == kv::MissReason::kCheaperToCompute);
  CHECK(cold.replica.scheduler().stats().loads_declined == 1);
  // It was only busy: after a while it is tried again, and used.
  cold.forget_device();
  cold.replica.below().disk_block_us = 50;
  cold.replica.advance_time(10min);
  CHECK(cold.turn(4).tokens.disk == kPromptBlocks * kBlockTokens);
}

TEST_CASE("a prefix that waited for blocks while its disk was found slow is computed, and the report says why") {
  ReplicaHarness replica(options_of());
  replica.below().keeps_disk = 100;
  replica.ready(200, 4096);
  for (std::uint64_t stream : {1, 2}) replica.submit(make_request(stream, make_prompt(stream, kPrompt), 4));
  replica.run_to_idle();
  replica.lose();
  replica.below().keeps_disk = 0;
  replica.below().disk_block_us = 50'000;
  replica.ready(kPromptBlocks + 10, 4096);  // room for one of them
  for (std::uint64_t stream : {1, 2}) replica.submit(make_request(10 + stream, make_prompt(stream, kPrompt), 4));
  replica.run_to_idle();
  for (std::uint64_t number : {11, 12}) replica.check_outcome(number);
  replica.check_conservation();
  CHECK(replica.outcome(11).report->tokens.disk > 0);  // it was the one to find out
  CHECK(replica.outcome(12).report->tokens.disk == 0);
  CHECK(replica.outcome(12).report->miss == kv::MissReason::kCheaperToCompute);
  CHECK(replica.scheduler().stats().loads_declined == 1);
}

TEST_CASE("a disk that was found slow at the start is not tried") {
  ColdReplica cold(0, 100);
  cold.replica.below().disk_block_us = cold.replica.disk_read_us = 50'000;
  cold.forget_device();
  const auto report = cold.turn(2);
  CHECK(report.tokens.disk == 0);
  CHECK(report.miss == kv::MissReason::kCheaperToCompute);
}

TEST_CASE("a block that cannot be loaded ends the prefix there, and is forgotten") {
  ColdReplica cold(100, 0);
  const auto keys = make_request(2, make_prompt(1, kPrompt), 1).keys;
  cold.replica.below().damage(Tier::kHost, keys[7]);
  const auto report = cold.turn(2);
  CHECK(report.tokens == kv::TierTokens{0, 7 * kBlockTokens, 0, kPrompt - 7 * kBlockTokens});
  CHECK(report.miss == kv::MissReason::kMoveFailed);
  CHECK(cold.replica.below().forgotten == 1);
  CHECK(cold.replica.scheduler().stats().loads_failed == 1);
}

TEST_CASE("a request that ends while it loads gives everything back when its moves have ended") {
  ColdReplica cold(100, 0);
  ReplicaHarness& replica = cold.replica;
  SECTION("aborted") {
    replica.submit(make_request(2, make_prompt(1, kPrompt), 4));
    replica.settle();
    REQUIRE(replica.below().moving());
    replica.abort(2);
    CHECK_FALSE(replica.scheduler().idle());
  }
  SECTION("past its deadline") {
    auto request = make_request(2, make_prompt(1, kPrompt), 4);
    request.deadline_ms = 5;
    replica.submit(request);
    replica.settle();
    REQUIRE(replica.below().moving());
    replica.advance_time(6ms);
    CHECK(replica.outcome(2).choices.at(0).error.error_class == ErrorClass::kDeadlineExceeded);
  }
  const std::uint64_t sets = replica.below().sets;
  replica.run_to_idle();
  CHECK(replica.below().sets == sets);  // no further one
  replica.check_conservation();
  CHECK(cold.turn(3).tokens.device > 0);  // what had come is used
}

TEST_CASE("a group that is lost under a load takes nothing with it") {
  ColdReplica cold(100, 0);
  ReplicaHarness& replica = cold.replica;
  replica.submit(make_request(2, make_prompt(1, kPrompt), 4));
  replica.settle();
  REQUIRE(replica.below().moving());
  cold.forget_device();
  replica.run_to_idle();
  replica.check_outcome(2);
  replica.check_conservation();
  CHECK(replica.outcome(2).report->tokens.host == kPromptBlocks * kBlockTokens);
}

TEST_CASE("who shares a prefix that is being loaded waits for it") {
  ColdReplica cold(100, 0);
  ReplicaHarness& replica = cold.replica;
  replica.submit(make_request(2, make_prompt(1, kPrompt), 4));
  replica.settle();
  replica.submit(make_request(3, make_prompt(1, kPrompt), 4));
  replica.run_to_idle();
  replica.check_outcome(2);
  replica.check_outcome(3);
  replica.check_conservation();
  CHECK(replica.outcome(3).report->tokens.device >= kPromptBlocks * kBlockTokens);
}

}  // namespace troupe::schedule::test
