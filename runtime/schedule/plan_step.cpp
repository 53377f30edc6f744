// Stage 3: running sequences become ForwardPlans. Decode rows first, then prefill chunks under the token budget and the stall budget
// (split-fuse: DeepSpeed-FastGen, arXiv 2401.08671; chunked prefill: Sarathi-Serve, arXiv 2403.02310). Never waits: what lacks a block
// has no row in this plan.
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <utility>

namespace troupe::schedule {

void Scheduler::State::plan_steps(TimePoint now) {
  delivery_.set_running(running_.size());
  while (in_flight_.size() < most_in_flight() && plan_one(now)) {
  }
}

bool Scheduler::State::plan_one(TimePoint now) {
  reserve_decode_blocks(now);
  const auto decodes = decode_rows_due();
  const bool prefill = std::any_of(running_.begin(), running_.end(), [](const Sequence* sequence) { return sequence->prefilling(); });
  const bool decode = std::any_of(decodes.begin(), decodes.end(), [](const Sequence* sequence) {
    return !sequence->reserved.empty() || sequence->planned < sequence->table.size() * kBlockTokens;
  });
  if (!prefill && !decode) return false;

  PlanBuilder builder(epoch_, StepNumber{last_step_.value + 1});
  for (SequenceSlot slot : to_drop_) free_slots_.insert(slot.value);
  builder.drop(std::exchange(to_drop_, {}));
  // A budget smaller than the number of streams would never leave a row for prompts: every other plan does.
  plan_decode(builder, decodes, options_.token_budget - (prefill && prefill_starved_ ? options_.min_chunk : 0));
  const bool stream_waits = stages_ == 1 ? builder.rows() > 0 : streams() > 0;  // with stages, a plan delays those without a row in it, too
  if (stream_waits) builder.note().limit_us = stall_limit_us();
  plan_prefill(builder);
  builder.overlap(overlap_.choose(builder.note().runs));
  for (const PlanInFlight& ahead : in_flight_)
    builder.note().ahead_us = std::max(builder.note().ahead_us, cost_.predict_us(ahead.load) * ahead.overlap.share);
  prefill_starved_ = prefill && builder.note().load.prefill_tokens == 0;
  last_step_ = builder.step();
  in_flight_.push_back(std::move(builder.note()));
  output_.plans.push_back(builder.take_plan());
  return true;
}

bool Scheduler::State::wants_decode_row(const Sequence& sequence) const {
  return !sequence.prefilling() && sequence.generated + sequence.draws_in_flight < generation_limit(*sequence.admission);
}

/// Longest without a row first; in order of start among equals. With stages those only whose last token is known: the first stage could not
/// begin before the last has drawn it.
std::vector<Sequence*> Scheduler::State::decode_rows_due() const {
  std::vector<Sequence*> due;
  for (Sequence* sequence : running_)
    if (wants_decode_row(*sequence) && (stages_ == 1 || sequence->draws_in_flight == 0)) due.push_back(sequence);
  std::stable_sort(due.begin(), due.end(), [](const Sequence* a, const Sequence* b) { return a->last_row_step < b->last_row_step; });
  if (due.size() > most_decode_rows()) due.resize(most_decode_rows());
  return due;
}

void Scheduler::State::plan_decode(PlanBuilder& builder, const std::vector<Sequence*>& due, std::uint32_t most_rows) {
  for (Sequence* sequence : due) {
    if (builder.rows() >= most_rows) return;
    if (sequence->reserved.empty() && sequence->planned >= sequence->table.size() * kBlockTokens) continue;
    prepare_rows(builder, *sequence, 1);
    builder.decode_row(*sequence);
    builder.draw(*sequence);
  }
}

void Scheduler::State::plan_prefill(PlanBuilder& builder) {
  const double limit_us = builder.note().limit_us;
  const std::uint32_t end = std::min(options_.token_budget, builder.rows() + most_prefill_rows());
  for (std::size_t i = 0; i < running_.size(); ++i) {  // forks are appended on the way
    Sequence& sequence = *running_[i];
    if (!sequence.prefilling()) continue;
    std::uint32_t rows = std::min(sequence.prefill_end - sequence.planned, end - builder.rows());
    if (limit_us > 0) {
      const bool first = builder.note().load.prefill_tokens == 0;
      const std::uint32_t fits = chunk_within(limit_us, builder.note(), sequence, rows);
      const std::uint32_t least = first ? std::min(options_.min_chunk, rows) : 0;  // prompts go on, whatever it costs
      builder.note().at_limit |= fits < rows;
      rows = std::max(fits, least);
    }
    if (rows == 0) return;
    prepare_rows(builder, sequence, rows);
    builder.prefill_rows(sequence, rows);
    if (sequence.prefilling() || generation_limit(*sequence.admission) == 0) continue;
    builder.draw(sequence);
    fork_attached(builder, sequence);
  }
}

/// Where the step will be overlapped, it takes less than the cost model says, which is of steps that are not.
std::uint32_t Scheduler::State::chunk_within(double limit_us, PlanInFlight& note, const Sequence& sequence, std::uint32_t most) const {
  const std::uint32_t fits = cost_.largest_chunk(note.load, sequence.planned, most, limit_us);
  if (fits == 0 || fits == most || ranks_ == 1) return fits;
  note.runs.push_back({sequence.number, sequence.planned, fits, false});
  const double share = overlap_.choose(note.runs).share;
  note.runs.pop_back();
  return share < 1 ? cost_.largest_chunk(note.load, sequence.planned, most, limit_us / share) : fits;
}

/// Slot, copy and blocks that the next `rows` rows need.
void Scheduler::State::prepare_rows(PlanBuilder& builder, Sequence& sequence, std::uint32_t rows) {
  if (!sequence.slot) {
    sequence.slot = take_slot();
    builder.add(sequence, *sequence.slot);
  }
  const auto append = [&] {
    TROUPE_CHECK(!sequence.reserved.empty());
    sequence.table.push_back(sequence.reserved.front());
    sequence.reserved.pop_front();
    builder.append_block(*sequence.slot, sequence.table.back());
  };
  if (sequence.copy) {
    if (sequence.copy->source_sequence != 0) {
      append();
      Sequence& source = *find(sequence.copy->source_sequence);
      source.last_step = builder.step();
      --source.pending_forks;
    }
    builder.copy(*sequence.copy, sequence.table.back());
    sequence.copy.reset();
  }
  while (sequence.planned + rows > sequence.table.size() * kBlockTokens) append();
}

/// The further choices of a request, with the parent's last chunk: they draw from its last row and share its full prompt blocks. Their
/// copies of the partial block ride in the plan with their first row. Those without a slot or a block go to the queue, on their own.
void Scheduler::State::fork_attached(PlanBuilder& builder, Sequence& parent) {
  const std::uint32_t full = parent.prefill_end / kBlockTokens;
  const std::uint32_t rest = parent.prefill_end % kBlockTokens;
  const bool needs_block = generation_limit(*parent.admission) > 1;
  for (SequenceNumber number : std::exchange(parent.attached, {})) {
    Sequence& sibling = *find(number);
    sibling.tokens = parent.tokens;
    sibling.keys = parent.keys;
    if (running_.size() >= options_.max_sequences || (needs_block && lease_.empty())) {
      sibling.state = SequenceState::kWaiting;
      waiting_.push_back(&sibling);
      continue;
    }
    sibling.state = SequenceState::kRunning;
    sibling.hold = parent.hold;
    sibling.table.assign(parent.table.begin(), parent.table.begin() + full);
    sibling.published = full;
    sibling.planned = sibling.computed = sibling.prefill_end = parent.prefill_end;
    sibling.next_score = kNone32;
    if (needs_block) {
      sibling.reserved.push_back(lease_.take(1).front());
      if (rest > 0) {
        sibling.copy = PendingCopy{parent.table[full], static_cast<std::uint16_t>(rest), LockId{}, parent.number};
        ++parent.pending_forks;
      }
    }
    running_.push_back(&sibling);
    sibling.slot = take_slot();
    builder.add(sibling, *sibling.slot);
    builder.draw(sibling);
  }
}

SequenceSlot Scheduler::State::take_slot() {
  if (free_slots_.empty()) return SequenceSlot{slots_made_++};
  const auto lowest = free_slots_.begin();
  const SequenceSlot slot{*lowest};
  free_slots_.erase(lowest);
  return slot;
}

}  // namespace troupe::schedule
