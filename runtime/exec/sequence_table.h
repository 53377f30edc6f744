// SequenceTable: what a rank knows of each sequence, by slot: block table, length, last token, sampling state. Follows the deltas of
// the plans; owned by the Executor, compute thread only.
// Invariant: a live slot's table covers every position that a row of it may name, and names only blocks that the rank has.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/plan/forward_plan.h"
#include "runtime/sample/penalties.h"

#include <optional>
#include <vector>

namespace troupe::exec {

struct Sequence {
  bool live = false;
  std::vector<BlockId> blocks;
  std::uint32_t length = 0;     // positions with K and V
  std::optional<TokenId> last;  // drawn last, as far as this rank has heard
  std::uint64_t added_at = 0;   // step
  std::uint64_t drawn_at = 0;   // last step with a draw for it; 0 on the rank that samples
  std::uint16_t choice = 0;
  plan::SamplingParameters sampling;
  sample::Penalties penalties;
  sample::TokenCounts counts;  // kept only where the penalties need them, on the rank that samples
};

class SequenceTable {
 public:
  explicit SequenceTable(std::size_t device_blocks, bool counts = true) : device_blocks_(device_blocks), counts_(counts) {}
  void clear() { slots_.clear(); }
  /// Drops, adds, appends, in this order. Calls `fresh(block)` for each block that comes to hold no position yet.
  /// Throws PlanGap for an unknown slot or one that is taken, InvariantViolation for a block that is not there.
  template <class Fresh>
  void apply(const plan::ForwardPlan& plan, Fresh&& fresh);
  /// Throws PlanGap for a slot that is not live.
  Sequence& at(SequenceSlot slot);
  /// What was drawn for the slot in a step. Nothing if another sequence has the slot meanwhile.
  void note_drawn(SequenceSlot slot, std::uint64_t step, TokenId token);

 private:
  void drop(SequenceSlot slot);
  Sequence& add(const plan::AddedSequence& added);
  void check_block(BlockId block) const;

  std::size_t device_blocks_;
  bool counts_;
  std::vector<Sequence> slots_;
};

template <class Fresh>
void SequenceTable::apply(const plan::ForwardPlan& plan, Fresh&& fresh) {
  const auto tell = [&fresh](const Sequence& sequence, std::size_t index) {
    if (index * kBlockTokens >= sequence.length) fresh(sequence.blocks[index]);
  };
  for (const SequenceSlot slot : plan.dropped) drop(slot);
  for (const plan::AddedSequence& added : plan.added) {
    Sequence& sequence = add(added);
    sequence.added_at = plan.step.value;
    for (std::size_t i = 0; i < sequence.blocks.size(); ++i) tell(sequence, i);
  }
  TROUPE_CHECK(plan.append_slots.size() == plan.append_blocks.size());
  for (std::size_t i = 0; i < plan.append_slots.size(); ++i) {
    Sequence& sequence = at(plan.append_slots[i]);
    check_block(plan.append_blocks[i]);
    sequence.blocks.push_back(plan.append_blocks[i]);
    tell(sequence, sequence.blocks.size() - 1);
  }
}

}  // namespace troupe::exec
