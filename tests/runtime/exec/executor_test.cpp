// The executor alone: plans by hand. Tables and deltas, order within a plan, samples that share a row, gaps, aborts, faults.
#include "runtime/exec/executor.h"
#include "tests/support/load_model.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <bit>
#include <numeric>

using namespace troupe;

namespace {

constexpr std::size_t kBlocks = 24;
const std::atomic<bool> kRun{false};

class Plans {
 public:
  explicit Plans(exec::ExecutorOptions options = {}, test::TinyModelOptions tiny = {})
      : loaded_(test::load_for_test(test::write_tiny_model(test::scratch_folder(), tiny))) {
    options.device_blocks = kBlocks;
    options.poison_free_blocks = true;
    executor_ = std::make_unique<exec::Executor>(*loaded_.model, *loaded_.backend, std::move(options));
    executor_->enter_epoch({1});
  }
  plan::ForwardPlan next() const {
    plan::ForwardPlan plan;
    plan.epoch = {epoch_};
    plan.step = {step_};
    return plan;
  }
  plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort = kRun) {
    plan::ForwardResult result = executor_->run(plan, abort);
    ++step_;
    CHECK(result.epoch == plan.epoch);
    CHECK(result.step == plan.step);
    return result;
  }
  void enter_epoch() {
    executor_->enter_epoch({++epoch_});
    step_ = 1;
  }
  exec::Executor& executor() { return *executor_; }

 private:
  test::LoadedModel loaded_;
  std::unique_ptr<exec::Executor> executor_;
  std::uint32_t epoch_ = 1;
  std::uint64_t step_ = 1;
};

plan::SamplingParameters greedy() {
  plan::SamplingParameters sampling;
  sampling.temperature = 0.0F;
  return sampling;
}

void add_sequence(plan::ForwardPlan& plan, std::uint32_t slot, std::vector<BlockId> blocks,
                  const plan::SamplingParameters& sampling = greedy(), std::uint32_t length = 0, std::uint16_t choice = 0) {
  plan::AddedSequence added;
  added.sequence = {slot};
  added.blocks = std::move(blocks);
  added.sampling = sampling;
  added.length = length;
  added.choice = choice;
  plan.added.push_back(std::move(added));
}

void add_rows(plan::ForwardPlan& plan, std::uint32_t slot, const std::vector<TokenId>& tokens,
              std::uint32_t position = plan::kNextPosition) {
  plan.runs.push_back({{slot}, position, static_cast<std::uint32_t>(tokens.size()), 0});
  plan.tokens.insert(plan.tokens.end(), tokens.begin(), tokens.end());
}

void draw_last(plan::ForwardPlan& plan, std::uint32_t slot, std::uint8_t top_logprobs = 3) {
  plan.samples.push_back({static_cast<std::uint32_t>(plan.tokens.size() - 1), {slot}, plan::kDraw, top_logprobs, 0});
}

std::vector<TokenId> prompt(std::size_t length, TokenId first = 20) {
  std::vector<TokenId> tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = (first + static_cast<TokenId>(i) * 17) % 300;
  return tokens;
}

/// Prefills `tokens` in slot 0, then draws `count` tokens with look-ahead rows.
std::vector<plan::ForwardResult> generate(Plans& plans, const std::vector<TokenId>& tokens, int count,
                                          const plan::SamplingParameters& sampling = greedy()) {
  plan::ForwardPlan plan = plans.next();
  add_sequence(plan, 0, {5, 3, 9, 1}, sampling);
  add_rows(plan, 0, tokens);
  draw_last(plan, 0);
  std::vector<plan::ForwardResult> results{plans.run(plan)};
  for (int i = 1; i < count; ++i) {
    plan = plans.next();
    add_rows(plan, 0, {plan::kLastToken});
    draw_last(plan, 0);
    results.push_back(plans.run(plan));
  }
  return results;
}

bool same(const plan::ForwardResult& a, const plan::ForwardResult& b) {
  const auto bits = [](const std::vector<float>& values) {
    std::vector<std::uint32_t> out;
    for (const float v : values) out.push_back(std::bit_cast<std::uint32_t>(v));
    return out;
  };
  return a.tokens == b.tokens && bits(a.logprobs) == bits(b.logprobs) && a.top_ids == b.top_ids &&
         bits(a.top_logprobs) == bits(b.top_logprobs) && a.failed_samples == b.failed_samples;
}

}  // namespace

TEST_CASE("Last token and next position stand for what the executor knows", "[executor]") {
  Plans implied;
  const auto wanted = generate(implied, prompt(40), 6);
  Plans explicit_plans;
  plan::ForwardPlan plan = explicit_plans.next();
  add_sequence(plan, 7, {2, 4, 6});
  add_rows(plan, 7, prompt(40), 0);
  draw_last(plan, 7);
  auto got = explicit_plans.run(plan);
  CHECK(same(got, wanted[0]));
  for (std::uint32_t i = 1; i < 6; ++i) {
    plan = explicit_plans.next();
    add_rows(plan, 7, {got.tokens[0]}, 39 + i);
    draw_last(plan, 7);
    got = explicit_plans.run(plan);
    CHECK(same(got, wanted[i]));
  }
}

TEST_CASE("A table grows by appended blocks", "[executor]") {
  Plans whole;
  const auto wanted = generate(whole, prompt(63), 4);
  Plans plans;
  plan::ForwardPlan plan = plans.next();
  add_sequence(plan, 0, {8});
  add_rows(plan, 0, prompt(63));
  plan.tokens.resize(32);
  plan.runs[0].rows = 32;
  CHECK(plans.run(plan).tokens.empty());
  plan = plans.next();
  plan.append_slots = {{0}, {0}};
  plan.append_blocks = {0, 23};
  const auto tokens = prompt(63);
  add_rows(plan, 0, {tokens.begin() + 32, tokens.end()});
  draw_last(plan, 0);
  CHECK(same(plans.run(plan), wanted[0]));
  for (int i = 1; i < 4; ++i) {
    plan = plans.next();
    add_rows(plan, 0, {plan::kLastToken});
    draw_last(plan, 0);
    CHECK(same(plans.run(plan), wanted[static_cast<std::size_t>(i)]));
  }
}

TEST_CASE("Siblings share full blocks and a row, and copy the tail in plan order", "[executor]") {
  plan::SamplingParameters sampling;
  sampling.seed = 99;
  const auto tokens = prompt(40);
  // Alone: choice 1 as a sequence of its own.
  Plans alone;
  plan::ForwardPlan plan = alone.next();
  add_sequence(plan, 0, {5, 3}, sampling, 0, 1);
  add_rows(plan, 0, tokens);
  draw_last(plan, 0);
  const auto first = alone.run(plan);
  plan = alone.next();
  add_rows(plan, 0, {plan::kLastToken});
  draw_last(plan, 0);
  const auto second = alone.run(plan);

  Plans plans;
  plan = plans.next();
  add_sequence(plan, 0, {10, 11}, sampling, 0, 0);
  add_rows(plan, 0, tokens);
  add_sequence(plan, 1, {10}, sampling, 40, 1);
  draw_last(plan, 0);
  draw_last(plan, 1);
  const auto both = plans.run(plan);
  REQUIRE(both.tokens.size() == 2);
  CHECK(both.tokens[1] == first.tokens[0]);
  plan = plans.next();
  plan.append_slots = {{1}};
  plan.append_blocks = {12};
  plan.copies = {{11, 12, 8, Tier::kDevice, Tier::kDevice}};
  add_rows(plan, 0, {plan::kLastToken});
  draw_last(plan, 0);
  add_rows(plan, 1, {plan::kLastToken});
  draw_last(plan, 1);
  const auto next = plans.run(plan);
  CHECK(next.tokens[1] == second.tokens[0]);
  CHECK(std::bit_cast<std::uint32_t>(next.logprobs[1]) == std::bit_cast<std::uint32_t>(second.logprobs[0]));
}

TEST_CASE("A dropped slot may be added again in the same plan", "[executor]") {
  Plans plans;
  const auto wanted = generate(plans, prompt(20), 1);
  plan::ForwardPlan plan = plans.next();
  plan.dropped = {{0}};
  add_sequence(plan, 0, {5});
  add_rows(plan, 0, prompt(20));
  draw_last(plan, 0);
  CHECK(same(plans.run(plan), wanted[0]));
}

TEST_CASE("Scores and draws may name one row, in any order", "[executor]") {
  Plans plans;
  plan::ForwardPlan plan = plans.next();
  add_sequence(plan, 0, {0, 1});
  add_rows(plan, 0, prompt(40));
  plan.samples = {{39, {0}, plan::kDraw, 2, 0}, {3, {0}, 77, 0, 0}, {39, {0}, 78, plan::kNoLogprobs, 0}};
  const auto first = plans.run(plan);
  REQUIRE(first.tokens.size() == 3);
  CHECK(first.tokens[1] == 77);
  CHECK(first.tokens[2] == 78);
  REQUIRE(first.logprobs.size() == 3);
  CHECK(first.logprobs[1] < 0);
  REQUIRE(first.top_ids.size() == 2);  // only the first sample wants any
  CHECK(first.top_ids[0] == first.tokens[0]);
  CHECK(first.top_logprobs[0] == first.logprobs[0]);

  // The drawn token scored is what the draw reported; scores do not touch the last token.
  plan = plans.next();
  plan.dropped = {{0}};
  add_sequence(plan, 0, {4, 5});
  add_rows(plan, 0, prompt(40));
  plan.samples = {{39, {0}, first.tokens[0], 0, 0}};
  const auto second = plans.run(plan);
  CHECK(std::bit_cast<std::uint32_t>(second.logprobs[0]) == std::bit_cast<std::uint32_t>(first.logprobs[0]));
  plan = plans.next();
  add_rows(plan, 0, {plan::kLastToken});
  CHECK_THROWS_AS(plans.run(plan), exec::PlanGap);
}

TEST_CASE("More sampled rows than fit one batch of logits", "[executor]") {
  Plans plans;
  plan::ForwardPlan plan = plans.next();
  std::vector<BlockId> blocks(6);
  std::iota(blocks.begin(), blocks.end(), 2);
  add_sequence(plan, 0, blocks);
  const auto tokens = prompt(180);
  add_rows(plan, 0, tokens);
  for (std::uint32_t row = 0; row < 180; ++row) plan.samples.push_back({179 - row, {0}, tokens[(180 - row) % 180], 1, 0});
  const auto all = plans.run(plan);
  REQUIRE(all.logprobs.size() == 180);
  for (const std::uint32_t row : {0U, 63U, 64U, 130U, 179U}) {
    plan = plans.next();
    plan.dropped = {{0}};
    add_sequence(plan, 0, blocks);
    add_rows(plan, 0, tokens);
    plan.samples = {{row, {0}, tokens[(row + 1) % 180], 1, 0}};
    const auto one = plans.run(plan);
    CHECK(std::bit_cast<std::uint32_t>(one.logprobs[0]) == std::bit_cast<std::uint32_t>(all.logprobs[179 - row]));
    CHECK(one.top_ids[0] == all.top_ids[179 - row]);
  }
}

TEST_CASE("Penalties follow the tokens drawn, and a resumed history", "[executor]") {
  plan::SamplingParameters sampling = greedy();
  sampling.presence_penalty = 2.0F;
  sampling.frequency_penalty = 1.0F;
  sampling.repetition_penalty = 1.3F;
  sampling.bias_tokens = {40};
  sampling.biases = {-100.0F};
  const auto tokens = prompt(10);
  const auto start = [&](Plans& plans, const std::vector<TokenId>& so_far) {
    plan::ForwardPlan plan = plans.next();
    add_sequence(plan, 0, {5, 3}, sampling);
    plan.added[0].history = so_far;
    plan.added[0].generated_from = static_cast<std::uint32_t>(tokens.size());
    add_rows(plan, 0, so_far);
    draw_last(plan, 0);
    return plans.run(plan);
  };
  Plans plans;
  std::vector<plan::ForwardResult> results{start(plans, tokens)};
  for (int i = 1; i < 8; ++i) {
    plan::ForwardPlan plan = plans.next();
    add_rows(plan, 0, {plan::kLastToken});
    draw_last(plan, 0);
    results.push_back(plans.run(plan));
  }
  std::vector<TokenId> so_far = tokens;
  for (const auto& result : results) {
    CHECK(result.tokens[0] != 40);
    Plans resumed;
    CHECK(same(start(resumed, so_far), result));
    so_far.push_back(result.tokens[0]);
  }
  Plans plain;
  const auto without = generate(plain, tokens, 8);
  bool differs = false;
  for (std::size_t i = 0; i < 8; ++i) differs |= without[i].tokens != results[i].tokens;
  CHECK(differs);
}

TEST_CASE("A plan out of order changes nothing", "[executor]") {
  Plans plans;
  const auto wanted = generate(plans, prompt(10), 3);
  plans.enter_epoch();
  CHECK(same(generate(plans, prompt(10), 2)[1], wanted[1]));
  plan::ForwardPlan right = plans.next();
  add_rows(right, 0, {plan::kLastToken});
  draw_last(right, 0);
  plan::ForwardPlan plan = right;
  plan.dropped = {{0}};
  SECTION("a step left out") { plan.step.value += 1; }
  SECTION("a step twice") { plan.step.value -= 1; }
  SECTION("another epoch") { plan.epoch.value += 1; }
  CHECK_THROWS_AS(plans.run(plan), exec::PlanGap);
  CHECK(same(plans.run(right), wanted[2]));
}

TEST_CASE("Gaps and unknown slots are told apart from results", "[executor]") {
  Plans plans;
  generate(plans, prompt(10), 2);
  plan::ForwardPlan plan = plans.next();
  SECTION("a row of an unknown slot") { add_rows(plan, 3, {1}); }
  SECTION("an unknown slot dropped") { plan.dropped = {{3}}; }
  SECTION("an unknown slot appended to") {
    plan.append_slots = {{1000000}};
    plan.append_blocks = {1};
  }
  SECTION("a slot added twice") { add_sequence(plan, 0, {8}); }
  SECTION("a sample of an unknown slot") {
    add_rows(plan, 0, {plan::kLastToken});
    draw_last(plan, 9);
  }
  SECTION("a position that is not the next") { add_rows(plan, 0, {1}, 200); }
  CHECK_THROWS_AS(plans.run(plan), exec::PlanGap);
  // Part of the plan may have been applied: nothing may continue it but a new epoch.
  CHECK_THROWS_AS(plans.run(plans.next()), exec::PlanGap);
  plans.enter_epoch();
  CHECK_NOTHROW(generate(plans, prompt(10), 2));
}

TEST_CASE("A plan that breaks the rules is an invariant, never an access", "[executor]") {
  Plans plans;
  generate(plans, prompt(10), 1);
  plan::ForwardPlan plan = plans.next();
  SECTION("a block that is not there") { add_sequence(plan, 1, {kBlocks}); }
  SECTION("an appended block that is not there") {
    plan.append_slots = {{0}};
    plan.append_blocks = {0xfffffffe};
  }
  SECTION("a copy to nowhere") { plan.copies = {{1, kBlocks, 4, Tier::kDevice, Tier::kDevice}}; }
  SECTION("a copy of too much") { plan.copies = {{1, 2, 33, Tier::kDevice, Tier::kDevice}}; }
  SECTION("rows beyond the table") {
    add_sequence(plan, 1, {8});
    add_rows(plan, 1, prompt(33));
  }
  SECTION("a token outside the vocabulary") { add_rows(plan, 0, {320}); }
  SECTION("more rows than tokens") {
    add_rows(plan, 0, {1});
    plan.runs[0].rows = 2;
  }
  SECTION("more tokens than rows") {
    add_rows(plan, 0, {1});
    plan.tokens.push_back(2);
  }
  SECTION("a sample of a row that is not there") {
    add_rows(plan, 0, {1});
    plan.samples = {{1, {0}, plan::kDraw, 0, 0}};
  }
  SECTION("a score outside the vocabulary") {
    add_rows(plan, 0, {1});
    plan.samples = {{0, {0}, 320, 0, 0}};
  }
  CHECK_THROWS_AS(plans.run(plan), InvariantViolation);
}

TEST_CASE("A sequence may not outgrow the context", "[executor]") {
  test::TinyModelOptions tiny;
  tiny.context = 64;
  Plans plans({}, tiny);
  plan::ForwardPlan plan = plans.next();
  add_sequence(plan, 0, {1, 2, 3});
  add_rows(plan, 0, prompt(64));
  CHECK_NOTHROW(plans.run(plan));
  plan = plans.next();
  add_rows(plan, 0, {1});
  CHECK_THROWS_AS(plans.run(plan), InvariantViolation);
}

TEST_CASE("A plan without rows has a result", "[executor]") {
  Plans plans;
  const auto result = plans.run(plans.next());
  CHECK(result.tokens.empty());
  CHECK(result.logprobs.empty());
}

TEST_CASE("The abort flag and the fault hook end a step between segments", "[executor]") {
  std::size_t seen = 0;
  std::atomic<bool> abort{false};
  exec::ExecutorOptions options;
  SECTION("abort") {
    options.fault_hook = [&](std::uint64_t, std::size_t segment, const std::atomic<bool>&) {
      seen = segment;
      if (segment == 2) abort = true;
    };
    Plans plans(std::move(options));
    plan::ForwardPlan plan = plans.next();
    add_sequence(plan, 0, {1});
    add_rows(plan, 0, prompt(8));
    CHECK_THROWS_AS(plans.run(plan, abort), exec::StepAborted);
    CHECK(seen == 2);
  }
  SECTION("fault, then a new epoch with the same tokens") {
    Plans sound;
    const auto wanted = generate(sound, prompt(8), 3);
    int polls = 0;
    options.fault_hook = [&](std::uint64_t, std::size_t, const std::atomic<bool>&) {
      if (++polls == 7) throw std::runtime_error("broken");
    };
    Plans plans(std::move(options));
    CHECK_THROWS_WITH(generate(plans, prompt(8), 3), "broken");
    plans.enter_epoch();
    const auto got = generate(plans, prompt(8), 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(same(got[i], wanted[i]));
  }
}
