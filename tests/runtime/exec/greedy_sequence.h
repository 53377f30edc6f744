// A greedy sequence in slot 0 of whoever runs plans: its prompt behind what is in its blocks already, then draws. For tests that compare
// what was drawn bit by bit.
#pragma once
#include "runtime/plan/forward_plan.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::test {

/// What a step drew: the token, and bit by bit its best log-probabilities.
using Drawn = std::vector<std::uint32_t>;

struct GreedySequence {
  std::uint32_t epoch = 1;
  std::vector<BlockId> blocks;
  std::uint32_t cached = 0;  // positions that are in them
  std::uint32_t prompt = 0;  // tokens
  std::size_t draws = 0;
};

/// Steps `step` + 1 ...; `run` turns a plan into its result.
template <class Run>
std::vector<Drawn> draw_greedily(const GreedySequence& sequence, std::uint64_t& step, Run run) {
  std::vector<Drawn> all;
  for (std::size_t i = 0; i < sequence.draws; ++i) {
    plan::ForwardPlan plan;
    plan.epoch = {sequence.epoch};
    plan.step = {++step};
    if (i == 0) {
      if (step > 1) plan.dropped = {{0}};
      plan::AddedSequence added;
      added.blocks = sequence.blocks;
      added.length = sequence.cached;
      added.sampling.temperature = 0.0F;
      plan.added = {added};
      for (std::uint32_t at = sequence.cached; at < sequence.prompt; ++at) plan.tokens.push_back((20 + at * 17) % 300);
    } else {
      plan.tokens = {plan::kLastToken};
    }
    const auto rows = static_cast<std::uint32_t>(plan.tokens.size());
    plan.runs = {{{0}, plan::kNextPosition, rows, 0}};
    plan.samples = {{rows - 1, {0}, plan::kDraw, 3, 0}};
    const plan::ForwardResult result = run(plan);
    Drawn drawn(result.tokens.begin(), result.tokens.end());
    for (const float value : result.top_logprobs) drawn.push_back(std::bit_cast<std::uint32_t>(value));
    all.push_back(std::move(drawn));
  }
  return all;
}

}  // namespace troupe::test
