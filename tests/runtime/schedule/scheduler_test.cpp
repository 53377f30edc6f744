// Rules of the scheduler that are no story: bounds of messages, stale and unknown ones, loads, first messages.
#include "messages/error_reasons.h"
#include "runtime/schedule/lease_pool.h"
#include "tests/runtime/schedule/replica_harness.h"

#include <catch2/catch.hpp>

#include <stdexcept>

namespace troupe::schedule::test {
namespace {
using namespace std::chrono_literals;

SchedulerOptions small_options() {
  SchedulerOptions options;
  options.token_budget = 64;
  options.min_chunk = 8;
  options.eos = {kEos};
  return options;
}
}  // namespace

TEST_CASE("an unknown policy throws at once") {
  SchedulerOptions options;
  options.policy = "nonsense";
  CHECK_THROWS_AS(Scheduler(options), std::invalid_argument);
}

TEST_CASE("a lease gives neighbours where it can") {
  LeasePool pool;
  pool.add(std::vector<BlockRange>{{0, 4}, {10, 4}});
  CHECK(pool.take(2, 10) == std::vector<BlockId>{11, 12});
  CHECK(pool.take(1) == std::vector<BlockId>{0});
  CHECK(pool.take(2, 13) == std::vector<BlockId>{1, 2});  // nothing behind 13: from the start
  CHECK(pool.give_back(2) == std::vector<BlockRange>{{13, 1}, {10, 1}});
  CHECK(pool.size() == 1);
  CHECK_THROWS_AS(pool.add(3), InvariantViolation);
  CHECK_THROWS_AS(pool.take(2), InvariantViolation);
}

TEST_CASE("both counts are in the text of a prompt that is too long") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 100);
  replica.submit(make_request(1, make_prompt(1, 123), 1));
  REQUIRE(replica.outcome(1).refused);
  const Error& error = *replica.outcome(1).refused;
  CHECK(error.error_class == ErrorClass::kContextTooLong);
  CHECK(error.client_text.find("100") != std::string::npos);
  CHECK(error.client_text.find("123") != std::string::npos);
}

TEST_CASE("an overloaded queue says when to come again") {
  SchedulerOptions options = small_options();
  options.max_sequences = 1;
  options.max_queued_requests = 1;
  ReplicaHarness replica(options);
  replica.ready(64, 512);
  for (std::uint64_t number = 1; number <= 3; ++number) replica.submit(make_request(number, make_prompt(number, 20), 4));
  REQUIRE(replica.outcome(3).refused);
  CHECK(replica.outcome(3).refused->error_class == ErrorClass::kOverloaded);
  CHECK(replica.outcome(3).refused->retry_after_ms >= 1000);
  CHECK(replica.loads().back().waiting_requests >= 1);
  replica.run_to_idle();
  replica.check_outcome(1);
  replica.check_outcome(2);
}

TEST_CASE("bad admissions are refused, each naming its field") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 512);
  const auto refusal = [&](AdmitSequence request) {
    const std::uint64_t number = request.request.value;
    replica.submit(std::move(request));
    REQUIRE(replica.outcome(number).refused);
    CHECK(replica.outcome(number).refused->error_class == ErrorClass::kInvalidRequest);
    return replica.outcome(number).refused->parameter;
  };
  CHECK(refusal(make_request(1, {}, 1)) == "prompt");
  AdmitSequence none = make_request(2, make_prompt(1, 5), 1);
  none.choices = 0;
  CHECK(refusal(none) == "n");
  none.request = RequestId{3};
  none.choices = 5000;
  CHECK(refusal(none) == "n");
  AdmitSequence resumed = make_request(4, make_prompt(1, 5), 1);
  resumed.generated = 6;
  CHECK(refusal(resumed) == "generated");
  replica.submit(make_request(5, make_prompt(1, 5), 9));
  CHECK(replica.outcome(5).admitted);
  replica.submit(make_request(5, make_prompt(1, 5), 9));
  CHECK(replica.outcome(5).refused->parameter == "request");
}

TEST_CASE("a resume goes on with the same draws") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 512);
  AdmitSequence whole = make_request(1, make_prompt(1, 30), 20);
  whole.ignore_eos = true;
  const auto reference = reference_tokens(whole.tokens, 1, 0, 20, true);
  AdmitSequence resumed = whole;
  resumed.attempt = 1;
  resumed.tokens.insert(resumed.tokens.end(), reference.begin(), reference.begin() + 8);
  resumed.keys.clear();  // made by the scheduler where they are missing
  resumed.generated = 8;
  resumed.max_tokens = 12;
  replica.submit(resumed);
  replica.run_to_idle();
  CHECK(replica.outcome(1).choices[0].tokens == std::vector<TokenId>(reference.begin() + 8, reference.end()));
  REQUIRE(replica.plans().front().added.size() == 1);
  CHECK(replica.plans().front().added[0].generated_from == 30);
}

TEST_CASE("history travels only where penalties need it") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 512);
  replica.submit(make_request(1, make_prompt(1, 10), 1));
  replica.run_to_idle();
  CHECK(replica.plans().back().added.at(0).history.empty());
  AdmitSequence penalized = make_request(2, make_prompt(2, 10), 1);
  penalized.sampling.frequency_penalty = 0.5F;
  replica.submit(penalized);
  replica.run_to_idle();
  CHECK(replica.plans().back().added.at(0).history == penalized.tokens);
}

TEST_CASE("stale and unknown messages are dropped") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 512);
  Scheduler& scheduler = replica.scheduler();
  const auto now = replica.now();
  scheduler.abort({RequestId{77}, 0, {}}, now);
  plan::ForwardResult result;
  result.epoch = GroupEpoch{99};
  result.step = StepNumber{5};
  scheduler.on_result(result, now);
  kv::PrefixMatched match;
  match.epoch = replica.epoch();
  match.lock = LockId{12345};
  scheduler.on_prefix_matched(match, now);
  kv::BlocksLeased lease;
  lease.epoch = GroupEpoch{99};
  lease.ranges = {{0, 60}};
  scheduler.on_blocks_leased(lease, now);
  scheduler.on_group_ready({replica.epoch(), 3, 4}, now);  // not newer
  CHECK(scheduler.stats().total_blocks == 64);
  CHECK(scheduler.idle());
  // A result out of order is a broken invariant, not a message to be dropped.
  result.epoch = replica.epoch();
  CHECK_THROWS_AS(scheduler.on_result(result, now), InvariantViolation);
}

TEST_CASE("a request waits for blocks that are yet to follow, and is not given up for the lack of them") {
  Scheduler scheduler(small_options());
  const TimePoint now{std::chrono::seconds(1000)};
  const GroupEpoch epoch{1};
  LeaseId asked;
  const auto lease = [&](std::vector<BlockRange> ranges, bool more_follow) {
    scheduler.on_blocks_leased({epoch, asked, std::move(ranges), 0, more_follow}, now);
    return scheduler.take_output();
  };
  scheduler.on_group_ready({epoch, 8, 256}, now);
  asked = scheduler.take_output().leases.at(0).lease;
  lease({{0, 1}}, false);  // the standing lease
  scheduler.admit(make_request(1, make_prompt(1, 240), 4), now);
  kv::PrefixMatched nothing;
  nothing.epoch = epoch;
  nothing.lock = scheduler.take_output().matches.at(0).lock;
  scheduler.on_prefix_matched(nothing, now);
  const auto wanted = scheduler.take_output().leases.at(0);
  REQUIRE(wanted.blocks == 7);
  asked = wanted.lease;
  for (const auto& out : {lease({{1, 5}}, true), lease({{6, 1}}, true)}) {
    CHECK(out.plans.empty());
    CHECK(out.tokens.empty());
    CHECK(out.matches.empty());
    CHECK(out.leases.empty());
  }
  SECTION("they come") { CHECK_FALSE(lease({{7, 1}}, false).plans.empty()); }
  SECTION("they do not: it tries without what it has locked") {
    const auto unmatched = lease({}, false);
    CHECK(unmatched.plans.empty());
    CHECK(unmatched.matches.size() == 1);
  }
}

TEST_CASE("an abort of another attempt does nothing") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 512);
  replica.submit(make_request(1, make_prompt(1, 10), 5));
  replica.scheduler().abort({RequestId{1}, 3, {}}, replica.now());
  replica.run_to_idle();
  replica.check_outcome(1);
}

TEST_CASE("a request under which every group is lost fails, and the replica goes on") {
  SchedulerOptions options = small_options();
  options.max_losses = 3;
  ReplicaHarness replica(options);
  replica.ready(64, 512);
  replica.submit(make_request(1, make_prompt(1, 40), 8));
  for (int loss = 1; loss <= 3; ++loss) {
    replica.settle();  // its plan is out, the shard never answers
    CHECK(replica.outcome(1).choices[0].finish == Finish::kRunning);
    replica.lose();
    replica.ready(64, 512);
  }
  CHECK(replica.outcome(1).choices[0].finish == Finish::kFailed);
  CHECK(replica.outcome(1).choices[0].error.reason == ErrorReason::kRetryBudget);
  replica.submit(make_request(2, make_prompt(2, 40), 8));
  replica.run_to_idle();
  replica.check_outcome(2);
  replica.check_conservation();
}

TEST_CASE("losses between which tokens come do not add up") {
  SchedulerOptions options = small_options();
  options.max_losses = 3;
  ReplicaHarness replica(options);
  replica.ready(64, 512);
  replica.submit(make_request(1, make_prompt(1, 40), 30));
  for (int loss = 1; loss <= 10; ++loss) {
    for (int step = 0; step < 2; ++step) {
      replica.settle();
      replica.shard_step();
    }
    replica.settle();
    replica.lose();
    replica.ready(64, 512);
  }
  replica.run_to_idle();
  replica.check_outcome(1);
  replica.check_conservation();
}

TEST_CASE("loads are told at most ten times a second, and at the end of a change") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 512);
  replica.settle();
  const TimePoint start = replica.now();
  for (std::uint64_t number = 1; number <= 20; ++number) {
    replica.submit(make_request(number, make_prompt(number, 20), 5));
    replica.run_to_idle();
    replica.advance_time(10ms);
  }
  const auto seconds = std::chrono::duration<double>(replica.now() - start).count();
  CHECK(replica.loads().size() <= 3 + static_cast<std::size_t>(seconds * 10));
  replica.advance_time(200ms);
  CHECK(replica.loads().back().running_sequences == 0);
  CHECK(replica.loads().back().waiting_requests == 0);
  CHECK(replica.loads().back().total_blocks == 64);
  const std::size_t told = replica.loads().size();
  replica.advance_time(5s);
  CHECK(replica.loads().size() == told);  // an idle engine sleeps
  CHECK_FALSE(replica.scheduler().take_output().wake_at);
}

TEST_CASE("64 streams: windows join tokens, and the last message comes at once") {
  SchedulerOptions options = small_options();
  options.token_budget = 512;
  ReplicaHarness replica(options);
  replica.shard().step_us = 3000;
  replica.ready(1024, 512);
  for (std::uint64_t number = 1; number <= 64; ++number) {
    AdmitSequence request = make_request(number, make_prompt(number, 20), 60);
    request.ignore_eos = true;
    replica.submit(request);
  }
  replica.run_to_idle();
  std::size_t messages = 0;
  for (auto& [number, outcome] : replica.outcomes()) {
    replica.check_outcome(number);
    CHECK(outcome.choices[0].message_sizes.front() == 1);
    messages += outcome.choices[0].message_sizes.size();
  }
  CHECK(messages < 64 * 60 / 3);
  CHECK(messages > 64 * 60 / 12);
  replica.check_conservation();
}

TEST_CASE("one stream gets every token in a message of its own") {
  ReplicaHarness replica(small_options());
  replica.ready(64, 512);
  AdmitSequence request = make_request(1, make_prompt(1, 20), 30);
  request.ignore_eos = true;
  replica.submit(request);
  replica.run_to_idle();
  CHECK(replica.outcome(1).choices[0].message_sizes == std::vector<std::size_t>(30, 1));
}

TEST_CASE("a running stream bounds what a prompt may cost") {
  SchedulerOptions options = small_options();
  options.token_budget = 512;
  options.stall_budget_ms = 20;
  ReplicaHarness replica(options);
  replica.shard().step_us = 1000;
  replica.shard().row_us = 100;
  replica.ready(256, 4096);
  replica.submit(make_request(1, make_prompt(1, 600), 20));  // teaches the cost model; nothing bounds it
  replica.run_to_idle();
  CHECK(replica.plans().front().tokens.size() == 512);
  AdmitSequence stream = make_request(2, make_prompt(2, 10), 60);
  stream.ignore_eos = true;
  replica.submit(stream);
  for (int i = 0; i < 5; ++i) {
    replica.settle();
    replica.shard_step();
  }
  const std::size_t before = replica.plans().size();
  replica.submit(make_request(3, make_prompt(3, 1000), 1));
  replica.run_to_idle();
  std::size_t largest = 0;
  for (std::size_t i = before; i < replica.plans().size(); ++i)
    if (replica.plans()[i].runs.size() > 1) largest = std::max(largest, replica.plans()[i].tokens.size());
  CHECK(largest > 100);  // 20 ms less 1 ms of delivery and 1 ms of base: 180 rows at most
  CHECK(largest <= 190);
  CHECK(replica.scheduler().stats().stall_overruns == 0);
  replica.check_outcome(2);
  replica.check_outcome(3);
}

TEST_CASE("many streams: tokens are joined, and no gap is longer than the stall budget") {
  SchedulerOptions options = small_options();
  options.token_budget = 2048;
  options.stall_budget_ms = 60;
  options.delivery_window_ms = 20;
  ReplicaHarness replica(options);
  replica.shard().step_us = 3000;
  replica.shard().row_us = 100;
  replica.ready(1024, 4096);
  replica.submit(make_request(100, make_prompt(100, 1500), 1));  // teaches the cost model
  replica.run_to_idle();
  for (std::uint64_t number = 1; number <= 12; ++number) {
    AdmitSequence stream = make_request(number, make_prompt(number, 20), 150);
    stream.ignore_eos = true;
    replica.submit(stream);
  }
  std::size_t largest = 0;
  for (std::uint64_t newcomer = 50; newcomer < 56; ++newcomer) {
    for (int i = 0; i < 7; ++i) {
      replica.settle();
      replica.shard_step();
    }
    const std::size_t before = replica.plans().size();
    replica.submit(make_request(newcomer, make_prompt(newcomer, 1500), 1));
    for (int i = 0; i < 5; ++i) {
      replica.settle();
      replica.shard_step();
    }
    for (std::size_t i = before; i < replica.plans().size(); ++i) largest = std::max(largest, replica.plans()[i].tokens.size());
  }
  replica.run_to_idle();
  CHECK(largest > 250);  // 54 ms less a window, 1 ms of delivery and 3 ms of base: 300 rows
  CHECK(largest < 310);
  for (std::uint64_t number = 1; number <= 12; ++number) {
    replica.check_outcome(number);
    CHECK(replica.outcome(number).choices[0].message_sizes.size() < 140);  // joined
    CHECK(replica.outcome(number).choices[0].longest_gap > 30ms);
    CHECK(replica.outcome(number).choices[0].longest_gap <= 60ms);
  }
}

TEST_CASE("a chunk that cannot fit the stall budget still goes on, and is counted") {
  SchedulerOptions options = small_options();
  options.stall_budget_ms = 2;
  ReplicaHarness replica(options);
  replica.shard().row_us = 1000;
  replica.ready(256, 4096);
  AdmitSequence stream = make_request(1, make_prompt(1, 10), 40);
  stream.ignore_eos = true;
  replica.submit(stream);
  replica.submit(make_request(2, make_prompt(2, 100), 1));
  replica.run_to_idle();
  CHECK(replica.scheduler().stats().stall_overruns > 3);
  replica.check_outcome(2);
}

}  // namespace troupe::schedule::test
