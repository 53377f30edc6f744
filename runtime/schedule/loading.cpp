// Between queue and running: a sequence whose prefix goes on in a tier below the device loads it, as far as loading is cheaper than
// computing. Blocks come in sets, each decided by what the last ones took; the targets are those that the sequence would compute into
// otherwise, so nothing is lost where a load ends early. Meanwhile it has no rows. What was loaded is published like what was computed.
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <utility>

namespace troupe::schedule {
namespace {
constexpr double kUsualHostBytesPerUs = 2000, kUsualDiskBytesPerUs = 500;  // until measured
}  // namespace

void Scheduler::State::reset_load_costs(std::uint64_t block_bytes) {
  if (block_bytes == block_bytes_) return;  // what was measured stays true in a new epoch
  block_bytes_ = block_bytes;
  host_cost_ = LoadCost(static_cast<double>(block_bytes) / kUsualHostBytesPerUs);
  disk_cost_ = LoadCost(static_cast<double>(block_bytes) / kUsualDiskBytesPerUs);
}

/// The next set that is worth its time: loaded sooner than computed.
std::uint32_t Scheduler::State::blocks_worth_loading(const Sequence& sequence, TimePoint now) const {
  const PrefixBelow& below = sequence.below;
  const LoadCost& cost = cost_of(below.next_tier());
  const std::uint32_t blocks = std::min(below.left_in_tier(), cost.set_size(now));
  if (blocks == 0) return 0;
  const auto position = static_cast<std::uint32_t>(sequence.table.size()) * kBlockTokens;
  const double computed_us = cost_.predict_us(StepLoad{}.with_chunk(position, blocks * kBlockTokens)) - cost_.predict_us({});
  return blocks * cost.block_us(now) < computed_us ? blocks : 0;
}

/// What lies below the device, or nothing if it is not worth loading. A tail of the device ends before the first block below does.
void Scheduler::State::take_prefix_below(Sequence& sequence, const kv::PrefixMatched& match, TimePoint now) {
  sequence.below = PrefixBelow{match.host_blocks, match.disk_blocks, match.host_tier, match.disk_tier, 0, {}, {}};
  if (sequence.below.left() == 0) return;
  if (blocks_worth_loading(sequence, now) == 0) {
    end_locks_below(sequence);
  } else if (sequence.copy) {
    release({sequence.copy->tail_lock}, {});
    sequence.copy.reset();
    sequence.planned = sequence.computed = sequence.published * kBlockTokens;
  }
}

/// What is left there is computed.
void Scheduler::State::end_locks_below(Sequence& sequence) {
  const bool failed = !sequence.below.failed.empty();
  if (sequence.below.left() > 0) sequence.miss = failed ? kv::MissReason::kMoveFailed : kv::MissReason::kCheaperToCompute;
  if (sequence.below.next == 0 && !failed) ++counters_.loads_declined;
  output_.finished_loads.push_back({epoch_, sequence.hold->lock, std::move(sequence.below.failed)});
  sequence.below = PrefixBelow{};
}

/// Precondition: its blocks are reserved.
void Scheduler::State::begin_loading(Sequence& sequence, TimePoint now) {
  sequence.state = SequenceState::kLoading;
  sequence.below.started = now;
  loading_.push_back(&sequence);
  order_load(sequence, blocks_worth_loading(sequence, now), now);
}

void Scheduler::State::order_load(Sequence& sequence, std::uint32_t blocks, TimePoint now) {
  if (blocks == 0) return end_loading(sequence, now);
  const PrefixBelow& below = sequence.below;
  const Tier tier = below.next_tier();
  plan::MoveBlocks load;
  load.epoch = epoch_;
  load.move_set = MoveSetId{++last_move_set_};
  (tier == Tier::kHost ? load.host_tier : load.disk_tier) = tier == Tier::kHost ? below.host_tier : below.disk_tier;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    load.moves.push_back({below.source(i), sequence.reserved[i], static_cast<std::uint16_t>(kBlockTokens), tier, Tier::kDevice});
    load.keys.push_back(sequence.keys[sequence.table.size() + i]);
  }
  loads_.emplace(load.move_set, LoadInFlight{sequence.number, tier, blocks, blocks, ranks_, now});
  output_.moves.push_back(std::move(load));
}

void Scheduler::State::on_moves_finished(const plan::MovesFinished& moves, TimePoint now) {
  const auto at = loads_.find(moves.move_set);
  if (!serving_ || moves.epoch != epoch_ || at == loads_.end()) return;
  LoadInFlight& load = at->second;
  Sequence& sequence = *find(load.sequence);
  for (std::uint32_t index : moves.failed) {  // a prefix has no holes: what comes behind a failure is not used
    if (index >= load.blocks) continue;
    load.good = std::min(load.good, index);
    sequence.below.failed.push_back(sequence.keys[sequence.table.size() + index]);
  }
  if (--load.ranks_left > 0) return;
  const LoadInFlight done = load;
  loads_.erase(at);
  take_loaded(sequence, done, now);
  advance(now);
}

void Scheduler::State::take_loaded(Sequence& sequence, const LoadInFlight& load, TimePoint now) {
  const bool whole = load.good == load.blocks;
  if (whole) cost_of(load.tier).observe(load.blocks, now - load.started, now);
  if (!whole) ++counters_.loads_failed;
  for (std::uint32_t i = 0; i < load.good; ++i) {
    sequence.table.push_back(sequence.reserved.front());
    sequence.reserved.pop_front();
  }
  sequence.below.next += load.good;
  (load.tier == Tier::kHost ? sequence.loaded_host : sequence.loaded_disk) += load.good;
  (load.tier == Tier::kHost ? counters_.host_blocks_loaded : counters_.disk_blocks_loaded) += load.good;
  sequence.planned = sequence.computed = static_cast<std::uint32_t>(sequence.table.size()) * kBlockTokens;
  const std::uint32_t more = whole && !sequence.ended ? blocks_worth_loading(sequence, now) : 0;
  if (more > 0) return order_load(sequence, more, now);
  end_loading(sequence, now);
}

void Scheduler::State::end_loading(Sequence& sequence, TimePoint now) {
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - sequence.below.started);
  sequence.load_us = static_cast<std::uint32_t>(took.count());
  counters_.load_us += sequence.load_us;
  std::erase(loading_, &sequence);
  publish_full_blocks(sequence);
  end_locks_below(sequence);
  if (sequence.ended)
    leave(sequence, true);
  else
    begin_running(sequence);
}

}  // namespace troupe::schedule
