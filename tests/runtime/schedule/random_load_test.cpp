// Random load over every policy: shared prefixes, turns that continue earlier answers, forks, n choices, scores, aborts, preemption by tiny
// pools, failed draws and loss of the group, with messages delivered in random order. The harness checks every plan and every token.
#include "runtime/schedule/policy_table.h"
#include "tests/runtime/schedule/replica_harness.h"

#include <catch2/catch.hpp>

#include <random>

namespace troupe::schedule::test {
namespace {

struct Load {
  std::uint32_t requests = 120;
  std::uint32_t blocks = 40;
  std::uint32_t context = 320;
  std::uint32_t token_budget = 48;
  std::uint32_t max_sequences = 6;
  std::uint32_t plans_in_flight = 2;
  std::uint32_t stages = 1, tensor_ranks = 1;
  bool losses = true;
  bool below = false;  // tiers below the device
};

class RandomLoad {
 public:
  RandomLoad(std::string policy, const Load& load, std::uint64_t seed) : load_(load), random_(seed), harness_(options(policy, load)) {
    harness_.leases_in_parts = seed % 2 == 0;
    harness_.stages = load.stages;
    harness_.tensor_ranks = load.tensor_ranks;
    if (!load.below) return;
    TiersBelow& below = harness_.below();
    below.seed(seed);
    below.keeps_host = 40;
    below.keeps_disk = 70;
    below.fails = 3;
    below.forgets = 20;
    below.disk_block_us = 1 + 300 * (seed % 4);  // some disks are slower than computing
  }

  void run() {
    harness_.ready(load_.blocks, load_.context);
    std::uint64_t submitted = 0;
    std::size_t idle_turns = 0;
    while (submitted < load_.requests || !harness_.scheduler().idle()) {
      const std::uint32_t dice = below(100);  // plans run slower than messages, but not in lockstep with them
      bool moved = true;
      if (dice < 35) {
        moved = harness_.tier_step();
      } else if (dice < 65) {
        moved = harness_.reply_step();
      } else if (dice < 75) {
        moved = harness_.shard_step();
      } else if (dice < 85) {
        moved = harness_.move_step(true) || harness_.shard_step();
      } else if (dice < 95) {
        if (submitted < load_.requests && below(3) == 0) submit(++submitted);
        harness_.advance_time(std::chrono::microseconds(below(3000)));
      } else if (dice < 97 && submitted > 0) {
        abort(1 + below(static_cast<std::uint32_t>(submitted)));
      } else if (load_.losses && below(150) == 0) {
        harness_.lose();
        lose_some_time();
        harness_.ready(load_.blocks, load_.context);
      } else if (below(200) == 0) {
        harness_.shard().fail_next_draw();
      }
      idle_turns = moved ? 0 : idle_turns + 1;
      REQUIRE(idle_turns < 5000);
    }
    harness_.run_to_idle();
    for (const auto& [number, outcome] : harness_.outcomes()) harness_.check_outcome(number);
    harness_.check_conservation();
  }
  ReplicaHarness& harness() { return harness_; }

 private:
  static SchedulerOptions options(const std::string& policy, const Load& load) {
    SchedulerOptions options;
    options.policy = policy;
    options.token_budget = load.token_budget;
    options.min_chunk = 8;
    options.max_sequences = load.max_sequences;
    options.plans_in_flight = load.plans_in_flight;
    if (load.tensor_ranks > 1) options.overlap = "always";
    options.window_from = 4;
    options.max_queued_requests = 12;
    options.eos = {kEos};
    return options;
  }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  void submit(std::uint64_t number) {
    std::vector<TokenId> prompt = make_prompt(below(4), 1 + below(120));
    if (number > 1 && below(2) == 0) {  // a further turn: an earlier prompt, its answer perhaps cut, and more
      const RequestOutcome& earlier = harness_.outcome(1 + below(static_cast<std::uint32_t>(number - 1)));
      prompt = earlier.request.tokens;
      if (!earlier.choices.empty()) {
        const auto& answer = earlier.choices.begin()->second.tokens;
        prompt.insert(prompt.end(), answer.begin(), answer.end());
      }
      prompt.resize(1 + below(static_cast<std::uint32_t>(prompt.size())));
      const auto more = make_prompt(number, below(20));
      prompt.insert(prompt.end(), more.begin(), more.end());
    }
    if (prompt.size() > 200 && below(8) != 0) prompt.resize(200);
    AdmitSequence request = make_request(number, std::move(prompt), below(12) == 0 ? 0 : 1 + below(70));
    if (below(6) == 0) request.choices = static_cast<std::uint16_t>(2 + below(4));
    if (below(8) == 0) request.first_choice = 3;
    if (below(4) == 0) request.sampling.top_logprobs = static_cast<std::uint8_t>(below(3));
    if (below(8) == 0) request.score_from = below(static_cast<std::uint32_t>(request.tokens.size()) + 10);
    if (below(5) == 0) request.ignore_eos = true;
    if (below(6) == 0) request.sampling.repetition_penalty = 1.1F;
    request.priority = static_cast<std::int32_t>(below(3));
    request.owner = Hash128{below(3) + 1, 0};
    harness_.submit(std::move(request));
  }

  void abort(std::uint64_t number) {
    RequestOutcome& outcome = harness_.outcome(number);
    if (outcome.refused) return;
    std::vector<std::uint16_t> choices;
    for (std::uint16_t i = 0; i < outcome.request.choices; ++i) {
      const auto choice = static_cast<std::uint16_t>(outcome.request.first_choice + i);
      if (outcome.choices[choice].finish == Finish::kRunning && below(2) == 0) choices.push_back(choice);
    }
    if (!choices.empty()) harness_.abort(number, choices);
  }

  void lose_some_time() {
    for (std::uint32_t i = below(6); i > 0; --i) {
      if (below(2) == 0) harness_.tier_step();
      if (below(2) == 0) harness_.reply_step();
      harness_.advance_time(std::chrono::milliseconds(5));
    }
  }

  Load load_;
  std::mt19937_64 random_;
  ReplicaHarness harness_;
};

}  // namespace

TEST_CASE("random load keeps every invariant under every policy") {
  for (const PolicyRow& policy : policy_table())
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      INFO("policy " << policy.name << ", seed " << seed);
      RandomLoad load(std::string(policy.name), Load{}, seed);
      REQUIRE_NOTHROW(load.run());
    }
}

TEST_CASE("random load with tiers below the device") {
  Load load;
  load.below = true;
  std::uint64_t loaded = 0, declined = 0, failed = 0;
  for (const PolicyRow& policy : policy_table())
    for (std::uint64_t seed = 51; seed <= 58; ++seed) {
      INFO("policy " << policy.name << ", seed " << seed);
      load.blocks = seed % 2 == 0 ? 40 : 14;
      RandomLoad run(std::string(policy.name), load, seed);
      REQUIRE_NOTHROW(run.run());
      const SchedulerStats stats = run.harness().scheduler().stats();
      loaded += stats.host_blocks_loaded + stats.disk_blocks_loaded;
      declined += stats.loads_declined;
      failed += stats.loads_failed;
    }
  CHECK(loaded > 0);
  CHECK(declined > 0);
  CHECK(failed > 0);
}

TEST_CASE("random load in a pool that is too small for it") {
  Load tiny;
  tiny.blocks = 12;
  tiny.max_sequences = 8;
  for (const PolicyRow& policy : policy_table()) {
    std::uint64_t preemptions = 0;
    for (std::uint64_t seed = 11; seed <= 16; ++seed) {
      INFO("policy " << policy.name << ", seed " << seed);
      RandomLoad load(std::string(policy.name), tiny, seed);
      REQUIRE_NOTHROW(load.run());
      preemptions += load.harness().scheduler().stats().preemptions;
    }
    CHECK(preemptions > 0);
  }
}

TEST_CASE("random load with one row a step, one plan or four in flight") {
  for (std::uint32_t in_flight : {1U, 4U})
    for (std::uint32_t budget : {1U, 7U, 512U}) {
      Load load;
      load.requests = 40;
      load.token_budget = budget;
      load.plans_in_flight = in_flight;
      INFO("budget " << budget << ", in flight " << in_flight);
      RandomLoad run("fcfs", load, 21 + budget + in_flight);
      REQUIRE_NOTHROW(run.run());
    }
}

TEST_CASE("random load over stages and tensor ranks") {
  for (const PolicyRow& policy : policy_table())
    for (std::uint32_t stages : {1U, 2U, 3U})
      for (std::uint32_t tensor_ranks : {1U, 2U}) {
        Load load;
        load.requests = 50;
        load.stages = stages;
        load.tensor_ranks = tensor_ranks;
        load.below = stages == 2;
        load.blocks = stages == 3 ? 16 : 40;
        INFO("policy " << policy.name << ", stages " << stages << ", tensor ranks " << tensor_ranks);
        RandomLoad run(std::string(policy.name), load, 71 + stages * 2 + tensor_ranks);
        REQUIRE_NOTHROW(run.run());
        const SchedulerStats stats = run.harness().scheduler().stats();
        CHECK((stats.overlapped_steps > 0) == (tensor_ranks > 1));
      }
}

TEST_CASE("long random load", "[.slow]") {
  Load load;
  load.requests = 600;
  load.below = true;
  Load tiny = load;
  tiny.blocks = 11;
  for (const PolicyRow& policy : policy_table())
    for (std::uint64_t seed = 100; seed < 140; ++seed) {
      INFO("policy " << policy.name << ", seed " << seed);
      Load chosen = seed % 2 == 0 ? load : tiny;
      chosen.stages = 1 + seed / 2 % 3;
      chosen.tensor_ranks = 1 + seed / 6 % 2;
      RandomLoad whole(std::string(policy.name), chosen, seed);
      REQUIRE_NOTHROW(whole.run());
    }
}

}  // namespace troupe::schedule::test
