// Stage 5: sequences leave, for good or back to the queue. What they hold goes back once no plan in flight names it. Loss and return of the
// group of shards are here too: then all locks and leases are void, and every sequence waits with its tokens so far.
#include "messages/error_reasons.h"
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <utility>

namespace troupe::schedule {

/// No more rows from the next plan on. Precondition: kRunning, or kLoading with no move left.
void Scheduler::State::leave(Sequence& sequence, bool ended) {
  std::erase(running_, &sequence);
  if (sequence.slot) to_drop_.push_back(*std::exchange(sequence.slot, std::nullopt));
  for (BlockId block : sequence.reserved) lease_.add(block);
  sequence.reserved.clear();
  settle_copy(sequence);
  sequence.state = SequenceState::kLeaving;
  sequence.ended = ended;
  leaving_.push_back(&sequence);
  if (ended) admission_hold_ = false;
}

/// A copy that no plan will do any more.
void Scheduler::State::settle_copy(Sequence& sequence) {
  if (!sequence.copy) return;
  if (sequence.copy->source_sequence != 0) {
    --find(sequence.copy->source_sequence)->pending_forks;
  } else {
    release({sequence.copy->tail_lock}, {});
    lease_.add(sequence.table.back());
    sequence.table.pop_back();
    sequence.planned = sequence.computed = sequence.published * kBlockTokens;
  }
  sequence.copy.reset();
}

void Scheduler::State::retire_leaving() {
  for (std::size_t i = 0; i < leaving_.size();) {
    Sequence& sequence = *leaving_[i];
    if (!try_retire(sequence)) {
      ++i;
      continue;
    }
    leaving_.erase(leaving_.begin() + static_cast<std::ptrdiff_t>(i));
    if (sequence.ended) {
      forget(sequence.number);
    } else {
      forget_residency(sequence);
      sequence.state = SequenceState::kWaiting;
      waiting_.push_back(&sequence);
    }
  }
}

bool Scheduler::State::try_retire(Sequence& sequence) {
  if (sequence.last_step > last_result_ || sequence.pending_forks > 0) return false;
  publish_full_blocks(sequence);
  if (sequence.ended) publish_tail(sequence);
  for (std::size_t i = sequence.published; i < sequence.table.size(); ++i) lease_.add(sequence.table[i]);
  drop_hold(sequence.own_hold);
  drop_hold(sequence.hold);
  return true;
}

/// Leaves what a waiting sequence keeps: tokens, keys, attached choices, its outbox.
void Scheduler::State::forget_residency(Sequence& sequence) {
  sequence.hold.reset();
  sequence.own_hold.reset();
  sequence.slot.reset();
  sequence.table.clear();
  sequence.reserved.clear();
  sequence.below = PrefixBelow{};
  sequence.loaded_host = sequence.loaded_disk = sequence.load_us = 0;
  sequence.copy.reset();
  sequence.published = sequence.planned = sequence.computed = sequence.prefill_begin = sequence.prefill_end = 0;
  sequence.draws_in_flight = sequence.pending_forks = 0;
  sequence.last_step = StepNumber{};
}

void Scheduler::State::on_group_lost(GroupEpoch epoch, bool final, const Error& error, TimePoint now) {
  if (epoch < epoch_) return;
  serving_ = false;
  in_flight_.clear();
  lease_.clear();
  matches_.clear();
  candidates_.clear();
  loading_.clear();
  loads_.clear();
  running_.clear();
  leaving_.clear();
  waiting_.clear();
  to_drop_.clear();
  free_slots_.clear();
  slots_made_ = 0;
  last_step_ = last_result_ = StepNumber{};
  busy_since_.reset();
  lease_asked_ = 0;
  lease_short_ = admission_hold_ = prefill_starved_ = false;
  published_keys_.clear();
  std::vector<SequenceNumber> all;
  std::vector<SequenceNumber> poisonous;  // a request that breaks every group it runs on must not break the replica for all
  for (const auto& [number, sequence] : sequences_) all.push_back(number);
  for (SequenceNumber number : all) {
    Sequence& sequence = *find(number);
    if (sequence.ended) {
      forget(number);
      continue;
    }
    if (!sequence.admission->report_sent) sequence.admission->report.reset();  // what it found is gone
    if (sequence.state == SequenceState::kAttached) continue;
    if (sequence.state == SequenceState::kRunning && ++sequence.losses >= options_.max_losses) poisonous.push_back(number);
    forget_residency(sequence);
    sequence.state = SequenceState::kWaiting;
    waiting_.push_back(&sequence);
  }
  for (SequenceNumber number : poisonous)
    if (Sequence* sequence = find(number))
      fail(*sequence,
           make_error(ErrorClass::kGroupLost, ErrorReason::kRetryBudget, "the engine was lost each time it ran this request", {},
                      error.operator_detail),
           now);
  if (final) {
    lost_for_good_ = error;
    for (SequenceNumber number : all)
      if (Sequence* sequence = find(number)) fail(*sequence, error, now);
  }
  advance(now);
}

void Scheduler::State::on_group_ready(const GroupReady& group, TimePoint now) {
  if (group.epoch <= epoch_) return;
  if (serving_) on_group_lost(epoch_, false, {}, now);  // its loss was not told: the same, without the pause
  epoch_ = group.epoch;
  serving_ = true;
  total_blocks_ = group.device_blocks;
  ranks_ = group.ranks;
  stages_ = std::max(group.stages, 1U);
  overlap_.enter_group(group.ranks, group.speed);
  reset_load_costs(group.block_bytes);
  if (group.disk_read_us > 0) disk_cost_.observe(1, std::chrono::microseconds(group.disk_read_us), now);
  context_tokens_ = group.context_tokens;
  if (options_.context_tokens > 0)
    context_tokens_ = context_tokens_ == 0 ? options_.context_tokens : std::min(context_tokens_, options_.context_tokens);
  // Limits may be known only now, or be smaller than before.
  for (Sequence* sequence : std::vector<Sequence*>(waiting_)) {
    const std::uint32_t tokens = static_cast<std::uint32_t>(sequence->tokens.size());
    const auto error = does_not_fit(tokens, sequence->admission->max_tokens > 0);
    if (!error) continue;
    const auto attached = std::exchange(sequence->attached, {});
    fail(*sequence, *error, now);
    for (SequenceNumber number : attached) fail(*find(number), *error, now);
  }
  advance(now);
}

}  // namespace troupe::schedule
