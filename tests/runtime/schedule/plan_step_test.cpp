// Plans of ranks that compute together: what is overlapped, and the stall promise where it is.
#include "tests/runtime/schedule/replica_harness.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

namespace troupe::schedule::test {
namespace {

/// Two tensor ranks; a row takes 200 us of compute and `wire_us` of the wire.
struct Pair {
  ReplicaHarness harness;
  std::uint64_t last = 0;

  Pair(std::uint32_t wire_us, const std::string& overlap, std::uint32_t stages = 1) : harness(options(overlap)) {
    harness.tensor_ranks = 2;
    harness.stages = stages;
    harness.shard().step_us = 3000;
    harness.shard().row_us = 200;
    harness.shard().wire_row_us = wire_us;
    harness.speed = {200, static_cast<double>(wire_us), 20, 12, 2048};
    harness.ready(1000, 8192);
  }
  static SchedulerOptions options(const std::string& overlap) {
    SchedulerOptions options;
    options.overlap = overlap;
    options.delivery_window_ms = 0;
    options.stall_budget_ms = 80;
    options.eos = {kEos};
    return options;
  }
  std::uint64_t submit(std::uint32_t prompt, std::uint32_t max_tokens) {
    ++last;
    AdmitSequence request = make_request(last, make_prompt(last, prompt), max_tokens);
    request.ignore_eos = true;
    harness.submit(std::move(request));
    harness.settle();
    return last;
  }
  double run_prompt(std::uint32_t tokens) {
    const TimePoint begin = harness.now();
    submit(tokens, 1);
    harness.run_to_idle();
    return std::chrono::duration<double, std::micro>(harness.now() - begin).count();
  }
  /// Four streams, then a prompt beside them until its token is there; the most rows that one plan took of it.
  std::size_t run_beside_streams(std::uint32_t tokens) {
    std::vector<std::uint64_t> streams;
    for (std::uint32_t i = 0; i < 4; ++i) streams.push_back(submit(10 + i, 400));
    for (int i = 0; i < 30; ++i, harness.settle()) REQUIRE(harness.shard_step());
    for (std::uint64_t stream : streams) harness.outcome(stream).choices[0].longest_gap = {};
    const std::size_t before = harness.plans().size();
    for (const std::uint64_t prompt = submit(tokens, 1); harness.outcome(prompt).choices.empty(); harness.settle())
      REQUIRE(harness.shard_step());
    for (std::uint64_t stream : streams) CHECK(harness.outcome(stream).choices[0].longest_gap < std::chrono::milliseconds(80));
    std::size_t longest = 0;
    for (std::size_t i = before; i < harness.plans().size(); ++i) longest = std::max(longest, harness.plans()[i].tokens.size());
    return longest;
  }
};

}  // namespace

TEST_CASE("long prompts are overlapped on a slow link, streams and short prompts are not") {
  Pair pair(200, "auto");
  pair.run_prompt(1200);
  pair.run_prompt(40);
  pair.run_beside_streams(800);
  std::uint64_t cut = 0;
  for (const plan::ForwardPlan& plan : pair.harness.plans()) {
    cut += !plan.cuts.empty();
    CHECK(!plan.cuts.empty() == (plan.tokens.size() >= 70));
  }
  CHECK(pair.harness.scheduler().stats().overlapped_steps > 0);
  CHECK(pair.harness.scheduler().stats().overlapped_steps <= cut);
  CHECK(pair.harness.scheduler().stats().wire_us > pair.harness.scheduler().stats().wait_us);
}

TEST_CASE("a prompt is done sooner with overlap; a fast link turns it off") {
  Pair slow(200, "auto"), plain(200, "off"), fast(3, "auto");
  CHECK(slow.run_prompt(1200) < 0.7 * plain.run_prompt(1200));
  CHECK(plain.harness.scheduler().stats().overlapped_steps == 0);
  fast.run_prompt(1200);
  CHECK(fast.harness.scheduler().stats().overlapped_steps == 0);
}

TEST_CASE("streams do not stall while an overlapped prompt comes in, and its chunks are the longer for it") {
  std::size_t longest[2];
  for (int overlapped : {0, 1}) {
    Pair pair(200, overlapped == 1 ? "auto" : "off");
    for (std::uint32_t tokens : {1000U, 600U, 300U, 50U}) pair.run_prompt(tokens);
    longest[overlapped] = pair.run_beside_streams(1200);
    CHECK(pair.harness.scheduler().stats().stall_overruns == 0);
  }
  CHECK(longest[1] > longest[0] * 5 / 4);
}

TEST_CASE("waiting for another stage does not make the wire between tensor ranks slow") {
  Pair pair(3, "auto", 4);
  for (int i = 0; i < 20; ++i) pair.run_prompt(90);  // one plan each: the last stage waits for the others
  CHECK(pair.harness.scheduler().stats().wait_us > 5 * pair.harness.scheduler().stats().wire_us);
  CHECK(pair.harness.scheduler().stats().overlapped_steps == 0);
}

}  // namespace troupe::schedule::test
