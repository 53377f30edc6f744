#include "tests/support/engine_loop.h"

#include "runtime/kv/block_key.h"

#include <bit>
#include <stdexcept>

namespace troupe::test {
namespace {

constexpr Hash128 kDomain{0x5eed, 0xd0};
// Plans cost what these say, whatever the machine does: chunk sizes then never depend on it.
constexpr std::uint32_t kStepMicros = 500, kRowMicros = 40;

schedule::SchedulerOptions scheduler_options(const LoadedModel& model, const LoopOptions& options) {
  schedule::SchedulerOptions scheduler;
  scheduler.policy = options.policy;
  scheduler.max_sequences = options.max_sequences;
  scheduler.token_budget = options.token_budget;
  scheduler.min_chunk = options.min_chunk;
  scheduler.context_tokens = static_cast<std::uint32_t>(model.model->config().context);
  scheduler.eos = {0};
  return scheduler;
}

bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::string difference(const LoopOutput& a, const LoopOutput& b) {
  for (std::size_t i = 0; i < std::min(a.tokens.size(), b.tokens.size()); ++i) {
    const std::string at = " at token " + std::to_string(i);
    if (a.tokens[i] != b.tokens[i]) return "token " + std::to_string(a.tokens[i]) + " / " + std::to_string(b.tokens[i]) + at;
    const bool given = i < a.logprobs.chosen.size() && i < b.logprobs.chosen.size();
    if (given && !same_bits(a.logprobs.chosen[i], b.logprobs.chosen[i])) return "log-probability" + at;
  }
  if (a.tokens.size() != b.tokens.size()) return std::to_string(a.tokens.size()) + " / " + std::to_string(b.tokens.size()) + " tokens";
  if (a.finish != b.finish) return "finish: " + a.error + " / " + b.error;
  if (a.logprobs.chosen.size() != b.logprobs.chosen.size()) return "number of log-probabilities";
  if (a.logprobs.ids != b.logprobs.ids) return "ids of the best";
  if (a.logprobs.logprobs.size() != b.logprobs.logprobs.size()) return "number of log-probabilities of the best";
  for (std::size_t i = 0; i < a.logprobs.logprobs.size(); ++i)
    if (!same_bits(a.logprobs.logprobs[i], b.logprobs.logprobs[i])) return "log-probability of the best, entry " + std::to_string(i);
  return {};
}

EngineLoop::EngineLoop(LoadedModel& model, const LoopOptions& options)
    : model_(model),
      options_(options),
      scheduler_(scheduler_options(model, options)),
      group_(model, {options.blocks, options.kv_format, options.poison, {}}) {
  enter_epoch();
  pump();
}

void EngineLoop::enter_epoch() {
  ++epoch_.value;
  group_.enter_epoch(epoch_);
  tier_.begin_epoch(epoch_, options_.blocks);
  schedule::GroupReady ready{epoch_, options_.blocks, static_cast<std::uint32_t>(model_.model->config().context)};
  ready.stages = model_.shape.stages;
  scheduler_.on_group_ready(ready, now_);
}

void EngineLoop::restart_group() {
  in_flight_.clear();
  scheduler_.on_group_lost(epoch_, false, {}, now_);
  pump();
  enter_epoch();
  pump();
}

RequestId EngineLoop::submit(const LoopRequest& request) {
  schedule::AdmitSequence admit;
  admit.request = {next_request_++};
  admit.tokens = request.prompt;
  admit.keys = kv::block_keys(kDomain, request.prompt);
  admit.key_domain = kDomain;
  admit.choices = request.choices;
  admit.max_tokens = request.max_tokens;
  admit.sampling = request.sampling;
  admit.stop_tokens = request.stop_tokens;
  admit.ignore_eos = request.ignore_eos;
  admit.priority = request.priority;
  const RequestId id = admit.request;
  outputs_[id].resize(request.choices);
  scheduler_.admit(std::move(admit), now_);
  pump();
  return id;
}

void EngineLoop::abort(RequestId request) {
  scheduler_.abort({request, 0, {}}, now_);
  pump();
}

void EngineLoop::pump() {
  for (bool more = true; more;) {
    schedule::SchedulerOutput out = scheduler_.take_output();
    more = !out.matches.empty() || !out.leases.empty();
    wake_at_ = out.wake_at;
    for (auto& plan : out.plans) {
      if (options_.cuts) plan.cuts = options_.cuts(plan);
      group_.post(plan);
      in_flight_.push_back(plan.tokens.size());
    }
    // The tier answers in the order in which it is told and asked, as from one sender.
    std::vector<kv::PrefixMatched> matched;
    std::vector<kv::BlocksLeased> leased;
    for (const auto& publish : out.publishes) tier_.publish(publish);
    for (const auto& release : out.releases) tier_.release(release);
    for (const auto& match : out.matches) matched.push_back(tier_.match(match));
    for (const auto& lease : out.leases) leased.push_back(tier_.lease(lease));
    for (const auto& refused : out.refused) {
      for (LoopOutput& output : outputs_.at(refused.request)) {
        output.finish = schedule::Finish::kFailed;
        output.error = refused.error.client_text;
      }
    }
    for (const auto& tokens : out.tokens) deliver(tokens);
    for (const auto& match : matched) scheduler_.on_prefix_matched(match, now_);
    for (const auto& lease : leased) scheduler_.on_blocks_leased(lease, now_);
  }
}

void EngineLoop::deliver(const schedule::TokensGenerated& tokens) {
  LoopOutput& output = outputs_.at(tokens.request).at(tokens.choice);
  if (tokens.first != output.tokens.size()) throw std::runtime_error("tokens out of order");
  if (output.finish != schedule::Finish::kRunning) throw std::runtime_error("tokens behind the finish");
  append(output.tokens, tokens.tokens);
  append(output.logprobs.chosen, tokens.logprobs.chosen);
  append(output.logprobs.ids, tokens.logprobs.ids);
  append(output.logprobs.logprobs, tokens.logprobs.logprobs);
  output.finish = tokens.finish;
  if (tokens.finish == schedule::Finish::kFailed) output.error = tokens.error.client_text;
  if (tokens.has_cache_report) output.cache = tokens.cache;
}

bool EngineLoop::step() {
  if (in_flight_.empty()) {
    if (!wake_at_) return false;
    now_ = std::max(now_, *wake_at_) + std::chrono::microseconds(1);
    wake_at_.reset();
    scheduler_.on_time(now_);
    pump();
    return !in_flight_.empty() || wake_at_.has_value();
  }
  plan::ForwardResult result = group_.result();
  result.compute_us = kStepMicros + kRowMicros * static_cast<std::uint32_t>(in_flight_.front());
  in_flight_.pop_front();
  now_ += std::chrono::microseconds(result.compute_us);
  scheduler_.on_result(result, now_);
  pump();
  return true;
}

void EngineLoop::run() {
  constexpr int kMostSteps = 200000;
  for (int i = 0; i < kMostSteps; ++i)
    if (!step()) return;
  throw std::runtime_error("the engine does not come to rest");
}

std::vector<LoopOutput> EngineLoop::generate(const LoopRequest& request) {
  const RequestId id = submit(request);
  run();
  return outputs(id);
}

void EngineLoop::check_idle() const {
  tier_.check_invariants();
  const kv::DeviceTierStats tier = tier_.stats();
  if (!scheduler_.idle() || tier.locked != 0) throw std::runtime_error("blocks are still locked");
}

}  // namespace troupe::test
