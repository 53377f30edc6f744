#include "runtime/exec/sequence_table.h"

#include "runtime/exec/executor.h"

#include <string>

namespace troupe::exec {
namespace {

// Slots are dense; a number far beyond any batch is a broken plan, and must not become an allocation.
constexpr std::uint32_t kMostSlots = 1 << 20;

}  // namespace

Sequence& SequenceTable::at(SequenceSlot slot) {
  if (slot.value >= slots_.size() || !slots_[slot.value].live) throw PlanGap("unknown slot " + std::to_string(slot.value));
  return slots_[slot.value];
}

void SequenceTable::drop(SequenceSlot slot) { at(slot) = Sequence{}; }

Sequence& SequenceTable::add(const plan::AddedSequence& added) {
  const std::uint32_t slot = added.sequence.value;
  TROUPE_CHECK(slot < kMostSlots);
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  Sequence& sequence = slots_[slot];
  if (sequence.live) throw PlanGap("slot " + std::to_string(slot) + " added twice");
  for (const BlockId block : added.blocks) check_block(block);
  sequence.live = true;
  sequence.blocks = added.blocks;
  sequence.length = added.length;
  sequence.choice = added.choice;
  sequence.sampling = added.sampling;
  const plan::SamplingParameters& sampling = added.sampling;
  TROUPE_CHECK(sampling.bias_tokens.size() == sampling.biases.size());
  sequence.penalties = {sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty, sampling.bias_tokens,
                        sampling.biases};
  if (counts_ && sequence.penalties.need_history()) {
    for (std::size_t i = 0; i < added.history.size(); ++i) {
      if (i < added.generated_from)
        sequence.counts.add_prompt(added.history[i]);
      else
        sequence.counts.add_output(added.history[i]);
    }
  }
  return sequence;
}

void SequenceTable::note_drawn(SequenceSlot slot, std::uint64_t step, TokenId token) {
  if (slot.value >= slots_.size()) return;
  Sequence& sequence = slots_[slot.value];
  if (sequence.live && sequence.added_at <= step) sequence.last = token;
}

void SequenceTable::check_block(BlockId block) const { TROUPE_CHECK(block < device_blocks_); }

}  // namespace troupe::exec
