// See scheduled_replica.h.
#include "cluster/bench/scheduled_replica.h"

#include "cluster/bench/load_client.h"

#include <utility>

namespace troupe::cluster::bench {
namespace {

const std::atomic<bool> kNoAbort{false};
constexpr std::uint32_t kNoStallBudget = 600'000;

schedule::SchedulerOptions options_of(const exec::ShardFacts& facts, std::uint32_t sequences) {
  schedule::SchedulerOptions options;
  options.max_sequences = sequences;
  options.context_tokens = facts.context_tokens;
  options.token_budget = ScheduledReplica::kTokenBudget;
  options.stall_budget_ms = kNoStallBudget;  // all prompts at once, then decoding alone
  return options;
}

schedule::TimePoint now() { return std::chrono::steady_clock::now(); }

/// Adds the time it takes to `total`.
template <class Work>
void timed(double& total, Work&& work) {
  const double start = now_seconds();
  work();
  total += now_seconds() - start;
}

}  // namespace

ScheduledReplica::ScheduledReplica(MeasuredEngine& engine, GroupEpoch epoch, std::uint32_t sequences)
    : engine_(engine), scheduler_(options_of(engine.facts(), sequences)) {
  tier_.begin_epoch(epoch, engine.facts().device_blocks);
  scheduler_.on_group_ready({epoch, engine.facts().device_blocks, engine.facts().context_tokens}, now());
  pump();
}

void ScheduledReplica::submit(schedule::AdmitSequence request) {
  scheduler_.admit(std::move(request), now());
  pump();
}

bool ScheduledReplica::step(std::size_t& rows) {
  if (plans_.empty()) return false;
  const plan::ForwardPlan plan = std::move(plans_.front());
  plans_.pop_front();
  const plan::ForwardResult result = engine_.run(plan, kNoAbort);
  rows = plan.tokens.size();
  timed(times_.plan, [&] { scheduler_.on_result(result, now()); });
  pump();
  return true;
}

SchedulingTimes ScheduledReplica::take_times() { return std::exchange(times_, {}); }

void ScheduledReplica::pump() {
  for (;;) {
    schedule::SchedulerOutput out;
    timed(times_.output, [&] {
      out = scheduler_.take_output();
      for (auto& plan : out.plans) plans_.push_back(std::move(plan));
    });
    std::vector<kv::PrefixMatched> matched;
    std::vector<kv::BlocksLeased> leased;
    timed(times_.tier, [&] {
      for (const auto& publish : out.publishes) tier_.publish(publish);
      for (const auto& release : out.releases) tier_.release(release);
      for (const auto& match : out.matches) matched.push_back(tier_.match(match));
      for (const auto& lease : out.leases) leased.push_back(tier_.lease(lease));
    });
    if (matched.empty() && leased.empty()) return;
    timed(times_.plan, [&] {
      for (const auto& match : matched) scheduler_.on_prefix_matched(match, now());
      for (const auto& lease : leased) scheduler_.on_blocks_leased(lease, now());
    });
  }
}

}  // namespace troupe::cluster::bench
