#include "cluster/bench_runs.h"

#include "runtime/kv/device_tier.h"
#include "runtime/schedule/scheduler.h"

#include <algorithm>
#include <chrono>
#include <deque>

namespace troupe::cluster {
namespace {

using Clock = std::chrono::steady_clock;
const std::atomic<bool> kNoAbort{false};
constexpr TokenId kFirstToken = 100, kTokens = 150;  // ordinary ids of any vocabulary of 256 and more

constexpr std::uint32_t kTokenBudget = 512, kNoStallBudget = 600'000;

/// Steps in which the last prompts are still read while the first sequences decode.
std::uint32_t overlap_steps(std::uint32_t batch, std::uint32_t context) { return batch * context / kTokenBudget + 4; }

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<TokenId> prompt_of(std::uint32_t sequence, std::uint32_t length) {
  std::vector<TokenId> tokens(length);
  for (std::uint32_t i = 0; i < length; ++i) tokens[i] = kFirstToken + (sequence * 31 + i * 7) % kTokens;
  return tokens;
}

BenchFigure figure_of(std::string name, std::uint32_t batch, std::uint32_t rows, double tokens, std::uint32_t steps,
                      const std::vector<double>& seconds) {
  BenchFigure figure{std::move(name), batch, rows, 0, 0, 0};
  figure.best_per_second = tokens / *std::min_element(seconds.begin(), seconds.end());
  figure.median_per_second = tokens / median(seconds);
  figure.step_ms = median(seconds) * 1e3 / steps;
  return figure;
}

/// Scheduler and tier in front of the shard, on one thread, in real time.
class Replica {
 public:
  Replica(exec::ShardEngine& engine, const exec::ShardFacts& facts, GroupEpoch epoch, std::uint32_t batch)
      : engine_(engine), scheduler_(options_of(facts, batch)) {
    tier_.begin_epoch(epoch, facts.device_blocks);
    scheduler_.on_group_ready({epoch, facts.device_blocks, facts.context_tokens}, Clock::now());
    pump();
  }

  void submit(schedule::AdmitSequence request) {
    scheduler_.admit(std::move(request), Clock::now());
    pump();
  }
  /// One plan; false when none is due. `compute_us` is what the shard says about itself.
  bool step(std::uint32_t& compute_us, std::size_t& rows) {
    if (plans_.empty()) return false;
    const plan::ForwardPlan plan = std::move(plans_.front());
    plans_.pop_front();
    const plan::ForwardResult result = engine_.run(plan, kNoAbort);
    compute_us = result.compute_us;
    rows = plan.tokens.size();
    scheduler_.on_result(result, Clock::now());
    pump();
    return true;
  }

 private:
  static schedule::SchedulerOptions options_of(const exec::ShardFacts& facts, std::uint32_t batch) {
    schedule::SchedulerOptions options;
    options.max_sequences = batch;
    options.context_tokens = facts.context_tokens;
    options.token_budget = kTokenBudget;
    options.stall_budget_ms = kNoStallBudget;  // all prompts at once, then decoding alone
    return options;
  }

  void pump() {
    for (;;) {
      schedule::SchedulerOutput out = scheduler_.take_output();
      for (auto& plan : out.plans) plans_.push_back(std::move(plan));
      std::vector<kv::PrefixMatched> matched;
      std::vector<kv::BlocksLeased> leased;
      for (const auto& match : out.matches) matched.push_back(tier_.match(match));
      for (const auto& lease : out.leases) leased.push_back(tier_.lease(lease));
      for (const auto& publish : out.publishes) tier_.publish(publish);
      for (const auto& release : out.releases) tier_.release(release);
      for (const auto& match : matched) scheduler_.on_prefix_matched(match, Clock::now());
      for (const auto& lease : leased) scheduler_.on_blocks_leased(lease, Clock::now());
      if (matched.empty() && leased.empty()) return;
    }
  }

  exec::ShardEngine& engine_;
  kv::DeviceTier tier_;
  schedule::Scheduler scheduler_;
  std::deque<plan::ForwardPlan> plans_;
};

}  // namespace

std::string BenchRuns::misfit() const {
  const std::uint32_t largest = *std::max_element(options_.batches.begin(), options_.batches.end());
  const std::uint32_t positions = options_.context_tokens + options_.decode_steps + overlap_steps(largest, options_.context_tokens);
  if (options_.prefill_tokens > facts_.context_tokens || positions > facts_.context_tokens)
    return "the prompt does not fit the model's context of " + std::to_string(facts_.context_tokens) + " tokens";
  // One block a sequence to spare: the scheduler reserves ahead.
  const std::uint64_t wanted =
      std::max<std::uint64_t>(blocks_for(options_.prefill_tokens), std::uint64_t{largest} * (blocks_for(positions) + 1));
  if (wanted > facts_.device_blocks)
    return "needs " + std::to_string(wanted) + " cache blocks, there are " + std::to_string(facts_.device_blocks) +
           ": give more with --kv-memory";
  return {};
}

void BenchRuns::begin_epoch() {
  ++epoch_.value;
  step_ = {0};
  engine_.enter_epoch(epoch_);
}

plan::ForwardPlan BenchRuns::next_plan() {
  plan::ForwardPlan plan;
  plan.epoch = epoch_;
  plan.step = {++step_.value};
  return plan;
}

void BenchRuns::add_sequence(plan::ForwardPlan& plan, std::uint32_t slot, std::uint32_t prompt, std::uint32_t positions) const {
  plan::AddedSequence added;
  added.sequence = {slot};
  added.sampling.temperature = 0.0F;
  const std::uint32_t blocks = blocks_for(positions);
  for (std::uint32_t i = 0; i < blocks; ++i) added.blocks.push_back(slot * blocks + i);
  plan.added.push_back(std::move(added));
  plan.runs.push_back({{slot}, 0, prompt, 0});
  for (const TokenId token : prompt_of(slot, prompt)) plan.tokens.push_back(token);
  plan.samples.push_back({static_cast<std::uint32_t>(plan.tokens.size() - 1), {slot}, plan::kDraw, plan::kNoLogprobs, 0});
}

BenchFigure BenchRuns::prefill() {
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i <= options_.repetitions; ++i) {
    begin_epoch();
    plan::ForwardPlan plan = next_plan();
    add_sequence(plan, 0, options_.prefill_tokens, options_.prefill_tokens);
    const auto start = Clock::now();
    engine_.run(plan, kNoAbort);
    if (i > 0) seconds.push_back(seconds_since(start));  // the first one touches memory for the first time
  }
  return figure_of("prefill", 1, options_.prefill_tokens, options_.prefill_tokens, 1, seconds);
}

BenchFigure BenchRuns::decode(std::uint32_t batch) {
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < options_.repetitions; ++i) {
    begin_epoch();
    for (std::uint32_t slot = 0; slot < batch; ++slot) {
      plan::ForwardPlan plan = next_plan();
      add_sequence(plan, slot, options_.context_tokens, options_.context_tokens + options_.decode_steps);
      engine_.run(plan, kNoAbort);
    }
    const auto start = Clock::now();
    for (std::uint32_t step = 0; step < options_.decode_steps; ++step) {
      plan::ForwardPlan plan = next_plan();
      for (std::uint32_t slot = 0; slot < batch; ++slot) {
        plan.runs.push_back({{slot}, plan::kNextPosition, 1, 0});
        plan.tokens.push_back(plan::kLastToken);
        plan.samples.push_back({slot, {slot}, plan::kDraw, plan::kNoLogprobs, 0});
      }
      engine_.run(plan, kNoAbort);
    }
    seconds.push_back(seconds_since(start));
  }
  return figure_of("decode", batch, batch, static_cast<double>(batch) * options_.decode_steps, options_.decode_steps, seconds);
}

StepFigure BenchRuns::scheduled(std::uint32_t batch) {
  begin_epoch();
  Replica replica(engine_, facts_, epoch_, batch);
  for (std::uint32_t i = 0; i < batch; ++i) {
    schedule::AdmitSequence request;
    request.request = {i + 1};
    request.tokens = prompt_of(i, options_.context_tokens);
    request.max_tokens = options_.decode_steps + overlap_steps(batch, options_.context_tokens);
    request.sampling.temperature = 0.0F;
    request.ignore_eos = true;
    replica.submit(std::move(request));
  }
  // Only steps in which every sequence decodes count.
  std::uint32_t compute_us = 0;
  std::size_t rows = 0;
  double wall = 0, compute = 0;
  std::uint32_t steps = 0;
  for (;;) {
    const auto start = Clock::now();
    if (!replica.step(compute_us, rows)) break;
    if (rows != batch) continue;
    wall += seconds_since(start);
    compute += compute_us * 1e-6;
    ++steps;
  }
  StepFigure figure{batch, 0, 0};
  if (steps == 0) return figure;
  figure.step_ms = wall * 1e3 / steps;
  figure.outside_percent = 100 * std::max(0.0, wall - compute) / wall;
  return figure;
}

}  // namespace troupe::cluster
