#include "runtime/schedule/plan_builder.h"

#include "messages/error.h"

#include <utility>

namespace troupe::schedule {
namespace {
bool has_penalties(const plan::SamplingParameters& sampling) {
  return sampling.repetition_penalty != 1.0F || sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F;
}
}  // namespace

PlanBuilder::PlanBuilder(GroupEpoch epoch, StepNumber step) {
  plan_.epoch = epoch;
  plan_.step = note_.step = step;
}

void PlanBuilder::drop(std::vector<SequenceSlot> slots) { plan_.dropped = std::move(slots); }

void PlanBuilder::add(const Sequence& sequence, SequenceSlot slot) {
  plan::AddedSequence added;
  added.sequence = slot;
  added.choice = sequence.choice;
  added.length = sequence.planned;
  added.blocks = sequence.table;
  added.sampling = sequence.admission->sampling;
  added.generated_from = sequence.admission->generated_from;
  if (has_penalties(added.sampling)) added.history = sequence.tokens;
  plan_.added.push_back(std::move(added));
}

void PlanBuilder::append_block(SequenceSlot slot, BlockId block) {
  plan_.append_slots.push_back(slot);
  plan_.append_blocks.push_back(block);
}

void PlanBuilder::copy(const PendingCopy& copy, BlockId target) {
  plan_.copies.push_back({copy.source, target, copy.tokens, Tier::kDevice, Tier::kDevice});
  if (copy.tail_lock) note_.tail_locks.push_back(copy.tail_lock);
}

void PlanBuilder::decode_row(Sequence& sequence) {
  const bool known = sequence.planned < sequence.tokens.size();
  TROUPE_CHECK(known || sequence.draws_in_flight > 0);
  plan_.runs.push_back({*sequence.slot, known ? sequence.planned : plan::kNextPosition, 1, 0});
  plan_.tokens.push_back(known ? sequence.tokens[sequence.planned] : plan::kLastToken);
  note_.runs.push_back({sequence.number, sequence.planned, 1, true});
  note_.load = note_.load.with_decode(sequence.planned);
  ++sequence.planned;
  name(sequence);
}

void PlanBuilder::prefill_rows(Sequence& sequence, std::uint32_t rows) {
  const Admission& admission = *sequence.admission;
  TROUPE_CHECK(rows > 0 && sequence.planned + rows <= sequence.tokens.size());
  plan_.runs.push_back({*sequence.slot, sequence.planned, rows, 0});
  note_.runs.push_back({sequence.number, sequence.planned, rows, false});
  note_.load = note_.load.with_chunk(sequence.planned, rows);
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::uint32_t scored = sequence.planned + 1;  // a row scores the token behind it
    plan_.tokens.push_back(sequence.tokens[sequence.planned++]);
    if (scored != sequence.next_score || scored >= admission.prompt_tokens) continue;
    ++sequence.next_score;
    // Chosen log-probability at least: that is what a score is.
    const std::uint8_t top = admission.sampling.top_logprobs == plan::kNoLogprobs ? 0 : admission.sampling.top_logprobs;
    plan_.samples.push_back({this->rows() - 1, *sequence.slot, sequence.tokens[scored], top, 0});
    note_.samples.push_back({sequence.number, scored, top});
  }
  name(sequence);
}

void PlanBuilder::draw(Sequence& sequence) {
  const std::uint8_t top = sequence.admission->sampling.top_logprobs;
  plan_.samples.push_back({rows() - 1, *sequence.slot, plan::kDraw, top, 0});
  note_.samples.push_back({sequence.number, kNone32, top});
  ++sequence.draws_in_flight;
  name(sequence);
}

void PlanBuilder::overlap(OverlapChoice choice) {
  plan_.cuts = choice.cuts;
  note_.overlap = std::move(choice);
}

}  // namespace troupe::schedule
