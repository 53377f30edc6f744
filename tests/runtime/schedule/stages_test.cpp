// Replicas with several stages: streams are dealt evenly over the plans in flight, prompts are cut so that all stages work, and the stall
// promise holds over a pipeline.
#include "tests/runtime/schedule/replica_harness.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

namespace troupe::schedule::test {
namespace {

SchedulerOptions usual() {
  SchedulerOptions options;
  options.delivery_window_ms = 0;
  options.eos = {kEos};
  return options;
}

/// A replica whose steps take 5 ms and 0.2 ms a row in each stage, with a cost model that knows it.
struct Replica {
  ReplicaHarness harness;
  std::uint64_t last = 0;

  explicit Replica(std::uint32_t stages, SchedulerOptions options = usual()) : harness(std::move(options)) {
    harness.stages = stages;
    harness.shard().step_us = 5000;
    harness.shard().row_us = 200;
    harness.ready(2000, 8192);
    for (std::uint32_t tokens : {1000U, 600U, 300U, 70U}) {
      submit(tokens, 20);
      harness.run_to_idle();
    }
  }
  std::uint64_t submit(std::uint32_t prompt, std::uint32_t max_tokens) {
    ++last;
    AdmitSequence request = make_request(last, make_prompt(last, prompt), max_tokens);
    request.ignore_eos = true;
    harness.submit(std::move(request));
    harness.settle();
    return last;
  }
  void steps(int count) {
    for (; count > 0; --count) {
      harness.settle();
      REQUIRE(harness.shard_step());
    }
    harness.settle();
  }
  std::vector<std::size_t> last_rows(std::size_t plans) const {
    const auto& all = const_cast<ReplicaHarness&>(harness).plans();
    std::vector<std::size_t> rows;
    for (std::size_t i = all.size() - plans; i < all.size(); ++i) rows.push_back(all[i].tokens.size());
    return rows;
  }
};

}  // namespace

TEST_CASE("streams are dealt evenly over as many plans as there are stages") {
  for (std::uint32_t stages : {2U, 3U}) {
    INFO("stages " << stages);
    Replica replica(stages);
    for (std::uint32_t i = 0; i < 4 * stages; ++i) replica.submit(10 + i, 300);
    replica.steps(40);
    CHECK(replica.last_rows(6) == std::vector<std::size_t>(6, 4));
    CHECK(replica.harness.shard().plans_in_flight() == stages);
  }
}

TEST_CASE("streams that end leave the others even") {
  Replica replica(2);
  for (std::uint32_t i = 0; i < 16; ++i) replica.submit(10, 300);
  replica.steps(40);
  const auto& plan = replica.harness.plans().back();  // all but two of one micro-batch end
  REQUIRE(plan.runs.size() == 8);
  for (std::size_t i = 0; i < 6; ++i) replica.harness.abort(replica.harness.shard().owner(plan.runs[i].sequence).first);
  replica.steps(10);
  CHECK(replica.last_rows(4) == std::vector<std::size_t>(4, 5));
  CHECK(replica.harness.shard().plans_in_flight() == 2);
  replica.submit(10, 100);
  replica.submit(10, 100);
  replica.steps(10);
  CHECK(replica.last_rows(4) == std::vector<std::size_t>(4, 6));
}

TEST_CASE("fewer streams than stages: one a plan") {
  Replica replica(3);
  replica.submit(10, 50);
  replica.submit(12, 50);
  replica.steps(20);
  CHECK(replica.last_rows(4) == std::vector<std::size_t>(4, 1));
  CHECK(replica.harness.shard().plans_in_flight() == 2);
}

TEST_CASE("two stages do twice the tokens of one with each half of the layers") {
  const auto time_of = [](std::uint32_t stages, std::uint32_t step_us) {
    Replica replica(stages);
    replica.harness.shard().step_us = step_us;
    const TimePoint begin = replica.harness.now();
    for (std::uint32_t i = 0; i < 8; ++i) replica.submit(10, 200);
    replica.harness.run_to_idle();
    return std::chrono::duration<double>(replica.harness.now() - begin).count();
  };
  CHECK(time_of(2, 5000) < 1.05 * time_of(1, 10000));  // each stage reads its weights for each of the two micro-batches
}

TEST_CASE("a prompt is cut so that all stages work on it") {
  for (std::uint32_t stages : {2U, 3U, 4U})
    for (std::uint32_t tokens : {512U, 1100U}) {
      Replica replica(stages);
      const TimePoint begin = replica.harness.now();
      replica.submit(tokens, 1);
      replica.harness.run_to_idle();
      const double took = std::chrono::duration<double, std::micro>(replica.harness.now() - begin).count();
      double best = 1e18;  // over all numbers of equal chunks
      for (double chunks = std::ceil(tokens / 512.0); chunks < 200; ++chunks)
        best = std::min(best, (chunks + stages - 1) * (5000 + 200 * std::ceil(tokens / chunks)));
      INFO("stages " << stages << ", tokens " << tokens);
      CHECK(took <= 1.1 * best);
      CHECK(took >= 0.99 * best);
    }
}

TEST_CASE("several short prompts share a plan, and fill the stages") {
  Replica replica(2);
  const std::size_t before = replica.harness.plans().size();
  for (std::uint32_t i = 0; i < 8; ++i) replica.submit(100, 1);
  const TimePoint begin = replica.harness.now();
  replica.harness.run_to_idle();
  CHECK(replica.harness.plans().size() - before < 14);
  CHECK(replica.harness.now() - begin < std::chrono::microseconds(8 * 100 * 200 * 17 / 10));
}

TEST_CASE("streams do not stall while a long prompt comes in, over all plans in flight") {
  for (std::uint32_t stages : {1U, 2U, 3U, 4U}) {
    SchedulerOptions options = usual();
    options.stall_budget_ms = 100;
    Replica replica(stages, options);
    std::vector<std::uint64_t> streams;
    for (std::uint32_t i = 0; i < 6; ++i) streams.push_back(replica.submit(10 + i, 400));
    replica.steps(30);
    for (std::uint64_t stream : streams) replica.harness.outcome(stream).choices[0].longest_gap = {};
    const std::uint64_t prompt = replica.submit(1500, 1);
    const std::size_t before = replica.harness.plans().size();
    while (replica.harness.outcome(prompt).choices.empty()) {
      replica.steps(1);
      CHECK(replica.harness.shard().plans_in_flight() <= std::max(stages, 2U));
    }
    std::size_t longest = 0;
    for (std::size_t i = before; i < replica.harness.plans().size(); ++i)
      longest = std::max(longest, replica.harness.plans()[i].tokens.size());
    INFO("stages " << stages << ", longest plan " << longest << " rows");
    CHECK(longest >= 32);
    for (std::uint64_t stream : streams) CHECK(replica.harness.outcome(stream).choices[0].longest_gap < std::chrono::milliseconds(100));
    CHECK(replica.harness.scheduler().stats().stall_overruns == 0);
  }
}

}  // namespace troupe::schedule::test
