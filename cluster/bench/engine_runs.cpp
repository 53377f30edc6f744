// See engine_runs.h.
#include "cluster/bench/engine_runs.h"

#include "cluster/bench/load_client.h"

#include <algorithm>
#include <future>
#include <memory>

namespace troupe::cluster::bench {
namespace {

const std::atomic<bool> kNoAbort{false};
constexpr TokenId kFirstToken = 100, kTokens = 150;
constexpr std::uint32_t kFillBlocks = 16;  // of one real prompt

void add_sequence(plan::ForwardPlan& plan, std::uint32_t slot, std::uint32_t first_block, std::uint32_t held, std::uint32_t positions,
                  std::uint32_t rows) {
  plan::AddedSequence added;
  added.sequence = {slot};
  added.length = held;
  added.sampling.temperature = 0.0F;
  for (std::uint32_t i = 0; i < blocks_for(positions); ++i) added.blocks.push_back(first_block + i);
  plan.added.push_back(std::move(added));
  plan.runs.push_back({{slot}, held, rows, 0});
  const std::vector<TokenId> prompt = bench_prompt(slot, held + rows);
  plan.tokens.insert(plan.tokens.end(), prompt.begin() + held, prompt.end());
  plan.samples.push_back({static_cast<std::uint32_t>(plan.tokens.size() - 1), {slot}, plan::kDraw, plan::kNoLogprobs, 0});
}

}  // namespace

std::vector<TokenId> bench_prompt(std::uint32_t sequence, std::uint32_t length) {
  std::vector<TokenId> tokens(length);
  for (std::uint32_t i = 0; i < length; ++i) tokens[i] = kFirstToken + (sequence * 31 + i * 7) % kTokens;
  return tokens;
}

std::uint32_t blocks_for(std::uint32_t positions) { return (positions + kBlockTokens - 1) / kBlockTokens; }

std::string EngineRuns::misfit(std::uint32_t sequences, std::uint32_t positions) const {
  const exec::ShardFacts& facts = engine_.facts();
  if (positions > facts.context_tokens)
    return "needs " + std::to_string(positions) + " positions, the model's context has " + std::to_string(facts.context_tokens);
  // One block a sequence to spare: a scheduler reserves ahead.
  const std::uint64_t wanted = std::uint64_t{sequences} * (blocks_for(positions) + 1);
  if (wanted > facts.device_blocks)
    return "needs " + std::to_string(wanted) + " cache blocks, there are " + std::to_string(facts.device_blocks) +
           ": give more with --kv-memory";
  return {};
}

void EngineRuns::on_engine_thread(const std::function<void()>& work) {
  const auto task = std::make_shared<std::packaged_task<void()>>(work);
  std::future<void> done = task->get_future();
  thread_.post([task] { (*task)(); });
  done.get();
}

GroupEpoch EngineRuns::begin_epoch() {
  ++epoch_.value;
  step_ = {0};
  const std::atomic<bool> no_abort{false};
  TROUPE_CHECK(engine_.enter_epoch({epoch_, {}, {}, {}}, no_abort));
  return epoch_;
}

plan::ForwardPlan EngineRuns::next_plan() {
  plan::ForwardPlan plan;
  plan.epoch = epoch_;
  plan.step = {++step_.value};
  return plan;
}

void EngineRuns::fill_blocks(std::uint32_t count) {
  if (count <= filled_) return;
  begin_epoch();
  const std::uint32_t real = std::min({count, kFillBlocks, engine_.facts().context_tokens / static_cast<std::uint32_t>(kBlockTokens)});
  if (real > 0) {
    plan::ForwardPlan plan = next_plan();
    add_sequence(plan, 0, 0, 0, real * kBlockTokens, real * kBlockTokens);
    engine_.run(plan, kNoAbort);
    plan::ForwardPlan copies = next_plan();
    for (std::uint32_t block = real; block < count; ++block)
      copies.copies.push_back({block % real, block, static_cast<std::uint16_t>(kBlockTokens), Tier::kDevice, Tier::kDevice});
    engine_.run(copies, kNoAbort);
  }
  filled_ = count;
}

std::optional<double> EngineRuns::prefill(std::uint32_t tokens) {
  double seconds = 0;
  on_engine_thread([&] {
    begin_epoch();
    plan::ForwardPlan plan = next_plan();
    add_sequence(plan, 0, 0, 0, tokens, tokens);
    const double start = now_seconds();
    engine_.run(plan, kNoAbort);
    seconds = now_seconds() - start;
  });
  if (stop_.load(std::memory_order_relaxed)) return std::nullopt;
  return seconds;
}

std::optional<double> EngineRuns::decode(std::uint32_t batch, std::uint32_t context, std::uint32_t steps) {
  std::optional<double> seconds;
  on_engine_thread([&] { seconds = decode_here(batch, context, steps); });
  return seconds;
}

std::optional<double> EngineRuns::decode_here(std::uint32_t batch, std::uint32_t context, std::uint32_t steps) {
  const std::uint32_t positions = context + steps, each = blocks_for(positions);
  fill_blocks(batch * each);
  begin_epoch();
  plan::ForwardPlan first = next_plan();
  for (std::uint32_t slot = 0; slot < batch; ++slot) add_sequence(first, slot, slot * each, context - 1, positions, 1);
  engine_.run(first, kNoAbort);
  const double start = now_seconds();
  for (std::uint32_t step = 0; step < steps; ++step) {
    if (stop_.load(std::memory_order_relaxed)) return std::nullopt;
    plan::ForwardPlan plan = next_plan();
    for (std::uint32_t slot = 0; slot < batch; ++slot) {
      plan.runs.push_back({{slot}, plan::kNextPosition, 1, 0});
      plan.tokens.push_back(plan::kLastToken);
      plan.samples.push_back({slot, {slot}, plan::kDraw, plan::kNoLogprobs, 0});
    }
    engine_.run(plan, kNoAbort);
  }
  return now_seconds() - start;
}

}  // namespace troupe::cluster::bench
