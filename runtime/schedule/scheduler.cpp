#include "runtime/schedule/scheduler.h"

#include "runtime/schedule/policy_table.h"
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::schedule {
namespace {
constexpr std::chrono::milliseconds kLoadInterval{100};

void keep_earliest(std::optional<TimePoint>& earliest, std::optional<TimePoint> other) {
  if (other && (!earliest || *other < *earliest)) earliest = other;
}
}  // namespace

Scheduler::State::State(SchedulerOptions options)
    : options_(std::move(options)), overlap_(overlap_mode(options_.overlap)), delivery_(options_.delivery_window_ms, options_.window_from) {
  auto policy = make_policy(options_.policy);
  if (!policy.ok()) throw std::invalid_argument(policy.error().client_text);
  policy_ = std::move(policy.value());
  options_.max_sequences = std::max(options_.max_sequences, 1U);
  options_.token_budget = std::max(options_.token_budget, 1U);
  options_.min_chunk = std::clamp(options_.min_chunk, 1U, options_.token_budget);
  options_.plans_in_flight = std::max(options_.plans_in_flight, 1U);
  context_tokens_ = options_.context_tokens;
}

void Scheduler::State::advance(TimePoint now) {
  if (serving_) {
    retire_leaving();
    start_sequences(now);
    plan_steps(now);
    refill_lease();
  }
  report_load(now);
}

void Scheduler::State::drain(TimePoint now) {
  draining_ = true;
  advance(now);
}

Sequence* Scheduler::State::find(SequenceNumber number) {
  const auto at = sequences_.find(number);
  return at == sequences_.end() ? nullptr : at->second.get();
}

std::uint64_t Scheduler::State::waiting_tokens() const {
  std::uint64_t tokens = 0;
  for (const Sequence* sequence : waiting_) tokens += sequence->tokens.size();
  return tokens;
}

/// Blocks that no sequence needs. Prefixes shared between requests count once for each, so this errs on the low side.
std::uint32_t Scheduler::State::free_blocks() const {
  std::uint64_t held = 0;
  for (const auto& [number, sequence] : sequences_) held += sequence->table.size() + sequence->reserved.size();
  return held >= total_blocks_ ? lease_.size() : std::max(lease_.size(), total_blocks_ - static_cast<std::uint32_t>(held));
}

SchedulerStats Scheduler::State::stats() const {
  SchedulerStats stats = counters_;
  stats.running = static_cast<std::uint32_t>(running_.size());
  stats.waiting = static_cast<std::uint32_t>(waiting_.size() + candidates_.size() + loading_.size());
  stats.free_blocks = serving_ ? free_blocks() : 0;
  stats.total_blocks = total_blocks_;
  stats.leased_blocks = lease_.size();
  stats.step_margin = cost_.margin();
  stats.delivery_us = delivery_.cost_us();
  return stats;
}

/// At most one a kLoadInterval, and only when something changed; at once when the queue fills up or the state changes.
void Scheduler::State::report_load(TimePoint now) {
  ReplicaLoad load;
  load.replica = options_.replica;
  load.epoch = epoch_;
  load.running_sequences = static_cast<std::uint32_t>(running_.size());
  load.waiting_requests = static_cast<std::uint32_t>(waiting_.size() + candidates_.size() + loading_.size());
  load.waiting_tokens = waiting_tokens();
  load.free_blocks = serving_ ? free_blocks() : 0;
  load.total_blocks = total_blocks_;
  load.state = draining_ ? ReplicaState::kDraining : serving_ ? ReplicaState::kServing : ReplicaState::kRestarting;
  const auto full = [this](const ReplicaLoad& of) { return of.waiting_requests >= options_.max_queued_requests; };
  const bool turned = load.state != last_load_.state || load.epoch != last_load_.epoch || full(load) != full(last_load_);
  const bool changed = turned || load.running_sequences != last_load_.running_sequences ||
                       load.waiting_requests != last_load_.waiting_requests || load.waiting_tokens != last_load_.waiting_tokens ||
                       load.free_blocks != last_load_.free_blocks;
  load_due_.reset();
  if (last_load_at_ && !changed) return;
  if (last_load_at_ && !turned && now < *last_load_at_ + kLoadInterval) {
    load_due_ = *last_load_at_ + kLoadInterval;
    return;
  }
  load.number = last_load_.number + 1;
  load.prefill_tokens_per_second = static_cast<float>(1e6 / std::max(cost_.prefill_token_us(), 1.0));
  load.step_us = static_cast<std::uint32_t>(cost_.smoothed_step_us());
  last_load_ = load;
  last_load_at_ = now;
  output_.loads.push_back(load);
}

SchedulerOutput Scheduler::State::take_output() {
  releases_sent_ = releases_made_;
  output_.wake_at = delivery_.next_due();
  keep_earliest(output_.wake_at, load_due_);
  for (const auto& [number, sequence] : sequences_)
    if (!sequence->ended) keep_earliest(output_.wake_at, sequence->admission->deadline);
  return std::exchange(output_, SchedulerOutput{});
}

Scheduler::Scheduler(SchedulerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Scheduler::~Scheduler() = default;
void Scheduler::admit(AdmitSequence request, TimePoint now) { state_->admit(std::move(request), now); }
void Scheduler::abort(const AbortSequence& request, TimePoint now) { state_->abort(request, now); }
void Scheduler::on_prefix_matched(const kv::PrefixMatched& match, TimePoint now) { state_->on_prefix_matched(match, now); }
void Scheduler::on_blocks_leased(const kv::BlocksLeased& leased, TimePoint now) { state_->on_blocks_leased(leased, now); }
void Scheduler::on_moves_finished(const plan::MovesFinished& moves, TimePoint now) { state_->on_moves_finished(moves, now); }
void Scheduler::on_result(const plan::ForwardResult& result, TimePoint now) { state_->on_result(result, now); }
void Scheduler::on_group_lost(GroupEpoch epoch, bool final, const Error& error, TimePoint now) {
  state_->on_group_lost(epoch, final, error, now);
}
void Scheduler::on_group_ready(const GroupReady& group, TimePoint now) { state_->on_group_ready(group, now); }
void Scheduler::on_time(TimePoint now) { state_->on_time(now); }
void Scheduler::drain(TimePoint now) { state_->drain(now); }
bool Scheduler::idle() const { return state_->idle(); }
SchedulerStats Scheduler::stats() const { return state_->stats(); }
SchedulerOutput Scheduler::take_output() { return state_->take_output(); }

}  // namespace troupe::schedule
