// Stage 2 of a sequence: the policy picks it from the queue, the device tier locks its prefix, and once the lease holds the blocks for all
// its known tokens it runs. Only a few sequences are matched ahead, because a lock keeps blocks from eviction.
#include "messages/error_reasons.h"
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <utility>

namespace troupe::schedule {
namespace {
constexpr std::size_t kMostCandidates = 4;
constexpr std::uint32_t kBacklogSteps = 2;  // token budgets of unplanned prompt that may run at once; more would only hold locks
}  // namespace

void Scheduler::State::start_sequences(TimePoint now) {
  if (running_.empty() && loading_.empty() && leaving_.empty()) admission_hold_ = false;
  start_matched(now);
  while (start_is_stuck()) resolve_stuck_start(now);
  while (may_match_more()) {
    Sequence* next = next_waiting(now);
    if (next == nullptr) return;  // all wait for a prefix that is being computed
    begin_match(*next);
  }
}

/// In the order chosen: a later candidate never takes the blocks that an earlier one waits for.
void Scheduler::State::start_matched(TimePoint now) {
  while (!candidates_.empty()) {
    Sequence& sequence = *candidates_.front();
    if (sequence.state != SequenceState::kMatched) return;
    // One block more for each running stream, lest the newcomer makes one of them be preempted at once.
    const std::size_t forks = lease_short_ ? 0 : sequence.attached.size();  // they can start later, on their own
    if (lease_.size() < blocks_wanted(sequence) + running_.size() + forks) return;
    candidates_.erase(candidates_.begin());
    const auto blocks = lease_.take(blocks_wanted(sequence), sequence.table.empty() ? kNone32 : sequence.table.back());
    sequence.reserved.assign(blocks.begin(), blocks.end());
    if (sequence.below.left() > 0)
      begin_loading(sequence, now);
    else
      begin_running(sequence);
  }
}

bool Scheduler::State::may_match_more() const {
  return !waiting_.empty() && !admission_hold_ && running_.size() + loading_.size() + candidates_.size() < options_.max_sequences &&
         candidates_.size() < kMostCandidates && (candidates_.empty() || !lease_short_) &&
         prefill_backlog() < kBacklogSteps * options_.token_budget;
}

std::uint32_t Scheduler::State::prefill_backlog() const {
  std::uint64_t tokens = 0;
  for (const Sequence* sequence : running_)
    if (sequence->prefilling()) tokens += sequence->prefill_end - sequence->planned;
  for (const auto* starting : {&candidates_, &loading_})
    for (const Sequence* sequence : *starting)
      tokens += sequence->tokens.size() - sequence->planned - std::uint64_t{kBlockTokens} * sequence->below.left();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, kNone32));
}

SequenceView Scheduler::State::view_of(const Sequence& sequence, TimePoint now) const {
  const Admission& admission = *sequence.admission;
  SequenceView view;
  view.arrival = sequence.number;
  view.priority = admission.priority;
  view.owner = admission.owner;
  view.tokens = static_cast<std::uint32_t>(sequence.tokens.size());
  view.waited_ms = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - admission.admitted_at).count());
  if (policy_->wants_expected_hit()) view.expected_hit = published_keys_.leading_tokens(sequence.keys);
  return view;
}

/// Positions of `sequence` that sequences ahead of it will compute, and that it could share then.
std::uint32_t Scheduler::State::prefix_in_flight(const Sequence& sequence) const {
  if (sequence.cold_start) return 0;
  std::uint32_t most = 0;
  const auto compare = [&](const Sequence& ahead) {
    // Keys are chained: where two differ, all behind them do.
    const std::size_t keys = std::min(sequence.keys.size(), ahead.keys.size());
    const auto differ = std::mismatch(ahead.keys.begin(), ahead.keys.begin() + static_cast<std::ptrdiff_t>(keys), sequence.keys.begin());
    const auto common = static_cast<std::uint32_t>(differ.first - ahead.keys.begin()) * kBlockTokens;
    const std::uint32_t usable = std::min(common, most_matched(sequence));
    if (usable > ahead.computed) most = std::max(most, usable - ahead.computed);
  };
  for (const Sequence* ahead : candidates_) compare(*ahead);
  for (const Sequence* ahead : loading_) compare(*ahead);
  for (const Sequence* ahead : running_)
    if (ahead->computed < ahead->prefill_end) compare(*ahead);
  return most;
}

/// Waits while someone ahead computes what it could share: prompts run in the order of their start, so its own rows would come no sooner.
/// Who waits holds nothing, and who is waited for runs or is about to, so this ends with its prompt, whatever becomes of it.
bool Scheduler::State::waits_for_prefix(const Sequence& sequence) const {
  const std::uint32_t shared = prefix_in_flight(sequence);
  return shared > 0 && shared * cost_.prefill_token_us() > cost_.predict_us({});  // the price is one step more
}

/// Taken out of the queue; null if all wait for a prefix.
Sequence* Scheduler::State::next_waiting(TimePoint now) {
  auto best = waiting_.end();
  SequenceView best_view;
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const SequenceView view = view_of(**at, now);
    if ((best != waiting_.end() && !policy_->starts_before(view, best_view)) || waits_for_prefix(**at)) continue;
    best = at;
    best_view = view;
  }
  if (best == waiting_.end()) return nullptr;
  Sequence* sequence = *best;
  waiting_.erase(best);
  return sequence;
}

/// Positions that a sequence may take from the cache.
std::uint32_t Scheduler::State::most_matched(const Sequence& sequence) {
  if (sequence.cold_start) return 0;
  std::uint32_t most = static_cast<std::uint32_t>(sequence.tokens.size()) - 1;  // one row at least, to draw from
  // The row before the first scored token must be computed.
  if (sequence.scores && sequence.admission->scores_wanted()) most = std::min(most, sequence.admission->next_score - 1);
  return most;
}

void Scheduler::State::begin_match(Sequence& sequence) {
  kv::Match match;
  match.epoch = epoch_;
  match.lock = next_lock();
  match.max_tokens = most_matched(sequence);
  extend_keys(sequence, static_cast<std::uint32_t>(sequence.tokens.size()) / kBlockTokens);
  match.keys = sequence.keys;
  match.tokens = sequence.tokens;
  match.domain = sequence.admission->key_domain;
  sequence.hold = std::make_shared<Hold>(Hold{match.lock});
  sequence.state = SequenceState::kMatching;
  candidates_.push_back(&sequence);
  matches_.emplace(match.lock, sequence.number);
  output_.matches.push_back(std::move(match));
}

void Scheduler::State::on_prefix_matched(const kv::PrefixMatched& match, TimePoint now) {
  const auto asked = matches_.find(match.lock);
  if (!serving_ || match.epoch != epoch_ || asked == matches_.end()) return;
  Sequence* sequence = find(asked->second);
  matches_.erase(asked);
  if (sequence == nullptr || sequence->state != SequenceState::kMatching || sequence->hold->lock != match.lock) {
    std::vector<LockId> locks{match.lock};  // aborted or sent back to the queue meanwhile
    if (match.tail_tokens > 0) locks.push_back(match.tail_lock);
    release(std::move(locks), {});
    return advance(now);
  }
  sequence->state = SequenceState::kMatched;
  sequence->table = match.device_blocks;
  sequence->published = static_cast<std::uint32_t>(match.device_blocks.size());
  sequence->planned = sequence->published * kBlockTokens + match.tail_tokens;
  sequence->computed = sequence->planned;
  sequence->miss = match.miss;
  const std::size_t below = (match.host_blocks.size() + match.disk_blocks.size()) * kBlockTokens;
  TROUPE_CHECK(std::max<std::size_t>(sequence->planned, sequence->table.size() * kBlockTokens + below) < sequence->tokens.size());
  if (match.tail_tokens > 0) sequence->copy = PendingCopy{match.tail_block, match.tail_tokens, match.tail_lock, 0};
  take_prefix_below(*sequence, match, now);
  advance(now);
}

std::uint32_t Scheduler::State::blocks_wanted(const Sequence& sequence) const {
  const bool generates = sequence.generated < generation_limit(*sequence.admission);
  return blocks_for(sequence.tokens.size() + (generates ? 1 : 0)) - static_cast<std::uint32_t>(sequence.table.size());
}

/// Precondition: its blocks are reserved.
void Scheduler::State::begin_running(Sequence& sequence) {
  Admission& admission = *sequence.admission;
  if (sequence.copy) {  // a fork: the copy is the last block of its table
    sequence.table.push_back(sequence.reserved.front());
    sequence.reserved.pop_front();
  }
  sequence.prefill_begin = sequence.planned;
  sequence.prefill_end = static_cast<std::uint32_t>(sequence.tokens.size());
  sequence.next_score = sequence.scores ? admission.next_score : kNone32;
  if (!admission.report) {
    const std::uint32_t hit = sequence.planned;
    const std::uint32_t host = sequence.loaded_host * kBlockTokens, disk = sequence.loaded_disk * kBlockTokens;
    admission.report = kv::CacheReport{{hit - host - disk, host, disk, sequence.prefill_end - hit}, sequence.miss, sequence.load_us};
    counters_.cached_tokens += hit;
  }
  sequence.state = SequenceState::kRunning;
  running_.push_back(&sequence);
}

/// Nothing runs that could give blocks back, and the tier has none for the first candidate: its own locks stand in its way.
bool Scheduler::State::start_is_stuck() const {
  return !candidates_.empty() && candidates_.front()->state == SequenceState::kMatched && running_.empty() && loading_.empty() &&
         blocks_exhausted() && lease_.size() < blocks_wanted(*candidates_.front());
}

void Scheduler::State::resolve_stuck_start(TimePoint now) {
  Sequence& sequence = *candidates_.front();
  if (candidates_.size() > 1) {
    while (candidates_.size() > 1) unmatch(*candidates_.back());
  } else if (sequence.copy) {
    release({sequence.copy->tail_lock}, {});  // do without the tail: its source needs a block beside the copy
    sequence.copy.reset();
    sequence.planned = sequence.computed = sequence.published * kBlockTokens;
  } else if (!sequence.cold_start) {
    sequence.cold_start = true;
    unmatch(sequence);
  } else {
    fail(sequence, make_error(ErrorClass::kUnavailable, ErrorReason::kNotEnoughBlocks, "the KV memory is too small for this request"), now);
  }
}

/// Back to the queue. A Match under way is undone when its answer comes.
void Scheduler::State::unmatch(Sequence& sequence) {
  std::erase(candidates_, &sequence);
  if (sequence.state == SequenceState::kMatched) {
    std::vector<LockId> locks{sequence.hold->lock};
    if (sequence.copy) locks.push_back(sequence.copy->tail_lock);
    release(std::move(locks), {});
  }
  forget_residency(sequence);
  sequence.state = SequenceState::kWaiting;
  waiting_.push_back(&sequence);
}

void Scheduler::State::unmatch_candidates() {
  while (!candidates_.empty()) unmatch(*candidates_.back());
}

}  // namespace troupe::schedule
