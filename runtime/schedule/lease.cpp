// The standing lease: blocks are asked for ahead of need, so that planning never waits for the tier. When the tier has nothing left, first
// waiting sequences lose their locks, then running ones are preempted (by recompute), the policy choosing which.
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <utility>

namespace troupe::schedule {
namespace {
constexpr std::uint32_t kGrowthAhead = 8;  // positions before the end of a table when its next block is asked for
}

void Scheduler::State::refill_lease() {
  const std::uint32_t slack = std::clamp(total_blocks_ / 64, 1U, 16U);
  const std::uint32_t wanted = std::min(lease_demand() + slack, total_blocks_);
  if (lease_.size() < wanted) {
    if (lease_asked_ > 0 || lease_short_) return;
    lease_asked_ = wanted - lease_.size();
    releases_at_request_ = releases_sent_;
    output_.leases.push_back({epoch_, LeaseId{++last_lease_}, lease_asked_, true});
  } else if (lease_.size() > wanted + slack) {
    release({}, lease_.give_back(lease_.size() - wanted));  // idle blocks are of more use as cache
  }
}

std::uint32_t Scheduler::State::lease_demand() const {
  std::uint64_t blocks = 0;
  for (const Sequence* sequence : candidates_)
    if (sequence->state == SequenceState::kMatched) blocks += blocks_wanted(*sequence) + sequence->attached.size();
  if (!candidates_.empty()) blocks += running_.size();  // as start_matched() asks for
  for (const Sequence* sequence : running_) {
    const std::uint64_t end = std::uint64_t{kBlockTokens} * (sequence->table.size() + sequence->reserved.size());
    if (!sequence->prefilling() && wants_decode_row(*sequence) && sequence->planned + kGrowthAhead >= end) ++blocks;
    blocks += sequence->attached.size();
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, total_blocks_));
}

void Scheduler::State::on_blocks_leased(const kv::BlocksLeased& leased, TimePoint now) {
  if (!serving_ || leased.epoch != epoch_ || leased.lease.value != last_lease_ || lease_asked_ == 0) return;
  const std::uint32_t before = lease_.size();
  lease_.add(leased.ranges);
  const std::uint32_t missing = lease_asked_ - std::min(lease_asked_, lease_.size() - before);
  lease_asked_ = leased.more_follow ? missing : 0;
  // Releases that the tier had not seen when it answered may have freed more: then ask again.
  lease_short_ = !leased.more_follow && missing > 0 && releases_made_ == releases_at_request_;
  advance(now);
}

bool Scheduler::State::blocks_exhausted() const { return lease_short_ && lease_asked_ == 0 && leaving_.empty(); }

void Scheduler::State::release(std::vector<LockId> locks, std::vector<BlockRange> leased) {
  output_.releases.push_back({epoch_, std::move(locks), std::move(leased)});
  ++releases_made_;
  lease_short_ = false;
}

void Scheduler::State::drop_hold(std::shared_ptr<Hold>& hold) {
  if (hold != nullptr && hold.use_count() == 1) release({hold->lock}, {});
  hold.reset();
}

/// Before a plan is begun: every sequence with a row due has the block for it, or is passed over, or someone is preempted.
void Scheduler::State::reserve_decode_blocks(TimePoint now) {
  for (Sequence* sequence : decode_rows_due()) {
    if (sequence->state != SequenceState::kRunning) continue;  // preempted by this loop
    if (!sequence->reserved.empty() || sequence->planned < sequence->table.size() * kBlockTokens) continue;
    while (lease_.empty()) {
      if (!blocks_exhausted()) return;  // blocks are on their way
      admission_hold_ = true;
      if (!candidates_.empty()) {
        unmatch_candidates();
        continue;
      }
      Sequence* victim = choose_victim(now);
      ++counters_.preemptions;
      leave(*victim, false);
      retire_leaving();
      if (victim == sequence) break;
    }
    if (sequence->state != SequenceState::kRunning || lease_.empty()) continue;
    sequence->reserved.push_back(lease_.take(1, sequence->table.back()).front());
  }
}

Sequence* Scheduler::State::choose_victim(TimePoint now) {
  Sequence* victim = running_.front();
  for (Sequence* sequence : running_)
    if (policy_->preempted_before(view_of(*sequence, now), view_of(*victim, now))) victim = sequence;
  return victim;
}

}  // namespace troupe::schedule
