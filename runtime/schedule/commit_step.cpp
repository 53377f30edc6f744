// Stage 4: a ForwardResult comes in. Positions count as computed, draws become tokens, full blocks are published; then the next step is
// planned, and only then do tokens leave (take_output() keeps that order).
#include "messages/error_reasons.h"
#include "runtime/kv/block_key.h"
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <span>
#include <utility>

namespace troupe::schedule {
namespace {

/// The flat log-probabilities of a result, one entry a sample.
std::vector<TopLogprobs> split_logprobs(const std::vector<PlannedSample>& samples, const plan::ForwardResult& result) {
  std::vector<TopLogprobs> split(samples.size());
  std::size_t top = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].top_logprobs == plan::kNoLogprobs) continue;
    TROUPE_CHECK(result.logprobs.size() == samples.size());
    const std::uint8_t width = samples[i].top_logprobs;
    TROUPE_CHECK(top + width <= result.top_ids.size() && result.top_ids.size() == result.top_logprobs.size());
    split[i].width = width;
    split[i].chosen.push_back(result.logprobs[i]);
    split[i].ids.assign(result.top_ids.begin() + static_cast<std::ptrdiff_t>(top),
                        result.top_ids.begin() + static_cast<std::ptrdiff_t>(top + width));
    split[i].logprobs.assign(result.top_logprobs.begin() + static_cast<std::ptrdiff_t>(top),
                             result.top_logprobs.begin() + static_cast<std::ptrdiff_t>(top + width));
    top += width;
  }
  return split;
}

OverlapPolicy::StepTimes times_of(const plan::ForwardResult& result) {
  const std::uint32_t waited = std::min(result.wait_us, result.compute_us);
  return {static_cast<double>(result.compute_us - waited), static_cast<double>(std::min(result.reduce_wait_us, waited))};
}

}  // namespace

void Scheduler::State::on_result(const plan::ForwardResult& result, TimePoint now) {
  if (!serving_ || result.epoch != epoch_) return;
  TROUPE_CHECK(!in_flight_.empty() && in_flight_.front().step == result.step);
  const PlanInFlight note = std::move(in_flight_.front());
  in_flight_.pop_front();
  TROUPE_CHECK(result.tokens.size() == note.samples.size());
  last_result_ = result.step;
  if (busy_since_) delivery_.note_wait(now - *busy_since_ - std::chrono::microseconds(result.compute_us));
  busy_since_.reset();
  if (!in_flight_.empty()) busy_since_ = now;
  ++counters_.steps;
  counters_.overlapped_steps += !note.overlap.cuts.empty();
  counters_.wire_us += result.wire_us;
  counters_.wait_us += result.wait_us;
  const double step_us = stage_us(note, result.compute_us);
  if (note.limit_us > 0 && step_us > note.limit_us) ++counters_.stall_overruns;
  cost_.observe(note.load, step_us / note.overlap.share, note.at_limit);
  overlap_.observe(note.runs, note.overlap.cuts, times_of(result));

  commit_rows(note);
  const auto logprobs = split_logprobs(note.samples, result);
  for (std::size_t i = 0; i < note.samples.size(); ++i) {
    const PlannedSample& sample = note.samples[i];
    const bool failed =
        std::find(result.failed_samples.begin(), result.failed_samples.end(), static_cast<std::uint32_t>(i)) != result.failed_samples.end();
    if (sample.score_position != kNone32)
      commit_score(sample, logprobs[i], failed, now);
    else
      commit_draw(*find(sample.sequence), result.tokens[i], logprobs[i], failed, now);
  }
  for (const PlannedRun& run : note.runs) {
    Sequence& sequence = *find(run.sequence);
    publish_full_blocks(sequence);
    commit_prompt_end(sequence, now);
  }
  if (!note.tail_locks.empty()) release(note.tail_locks, {});
  delivery_.flush_due(
      now, [this](SequenceNumber number) { return find(number); }, output_.tokens);
  advance(now);
}

void Scheduler::State::commit_rows(const PlanInFlight& note) {
  for (const PlannedRun& run : note.runs) {
    Sequence& sequence = *find(run.sequence);  // still here: it retires only after the result of the last plan that names it
    sequence.computed += run.rows;
    policy_->on_service(sequence.admission->owner, run.rows);
    if (!run.decode)
      counters_.prompt_tokens += run.rows;
    else if (sequence.ended)
      counters_.wasted_rows += run.rows;
  }
}

void Scheduler::State::commit_score(const PlannedSample& sample, const TopLogprobs& logprobs, bool failed, TimePoint now) {
  Sequence& sequence = *find(sample.sequence);
  Admission& admission = *sequence.admission;
  if (!sequence.scores) return;  // another choice took it over
  if (failed && !sequence.ended)
    return fail(sequence, make_error(ErrorClass::kInternal, ErrorReason::kNonFinite, "the model gave no finite result for the prompt"),
                now);
  if (output_.scored.empty() || output_.scored.back().request != admission.request || output_.scored.back().attempt != admission.attempt ||
      output_.scored.back().first + output_.scored.back().logprobs.chosen.size() != sample.score_position)
    output_.scored.push_back({admission.request, admission.attempt, sample.score_position, {}});
  append(output_.scored.back().logprobs, logprobs);
  admission.next_score = sample.score_position + 1;
}

void Scheduler::State::commit_draw(Sequence& sequence, TokenId token, const TopLogprobs& logprobs, bool failed, TimePoint now) {
  --sequence.draws_in_flight;
  if (sequence.ended) return;  // past the end: dropped and not billed
  if (failed)
    return fail(sequence, make_error(ErrorClass::kInternal, ErrorReason::kNonFinite, "the model gave no finite result for a token"), now);
  sequence.tokens.push_back(token);  // a stop token too: its K and V may be written by the plan in flight, and are good cache
  if (sequence.admission->stops_at(token)) return finish(sequence, Finish::kStop, token, now);
  ++sequence.generated;
  sequence.losses = 0;
  ++counters_.generated_tokens;
  if (sequence.generated < generation_limit(*sequence.admission)) return delivery_.add(sequence, token, logprobs, now, output_.tokens);
  delivery_.hold(sequence, token, logprobs);
  finish(sequence, Finish::kLength, 0, now);
}

/// A request that wants no tokens is done with its prompt; so are its further choices.
void Scheduler::State::commit_prompt_end(Sequence& sequence, TimePoint now) {
  if (sequence.ended || sequence.state != SequenceState::kRunning || sequence.computed < sequence.prefill_end) return;
  if (generation_limit(*sequence.admission) > 0) return;
  const auto attached = std::exchange(sequence.attached, {});
  finish(sequence, Finish::kLength, 0, now);
  for (SequenceNumber number : attached) finish(*find(number), Finish::kLength, 0, now);
}

void Scheduler::State::finish(Sequence& sequence, Finish finish, TokenId stop_token, TimePoint now) {
  sequence.outbox.finish = finish;
  sequence.outbox.stop_token = stop_token;
  delivery_.finish(sequence, now, output_.tokens);
  end_sequence(sequence);
}

void Scheduler::State::extend_keys(Sequence& sequence, std::uint32_t blocks) {
  while (sequence.keys.size() < blocks) {
    const auto tokens = std::span(sequence.tokens).subspan(sequence.keys.size() * kBlockTokens, kBlockTokens);
    sequence.keys.push_back(
        kv::block_key(sequence.admission->key_domain, sequence.keys.empty() ? BlockKey{} : sequence.keys.back(), tokens));
  }
}

/// Choices share the lock of the prompt; what each of them generates is under a lock of its own, so that one can end alone.
LockId Scheduler::State::publish_lock(Sequence& sequence, std::uint32_t block) {
  if (sequence.admission->choices == 1 || block < sequence.admission->prompt_tokens / kBlockTokens) return sequence.hold->lock;
  if (sequence.own_hold == nullptr) sequence.own_hold = std::make_shared<Hold>(Hold{next_lock()});
  return sequence.own_hold->lock;
}

void Scheduler::State::publish_full_blocks(Sequence& sequence) {
  const std::uint32_t known = std::min(sequence.computed, static_cast<std::uint32_t>(sequence.tokens.size()));
  const std::uint32_t end = known / kBlockTokens;
  extend_keys(sequence, end);
  while (sequence.published < end) {
    const std::uint32_t first = sequence.published;
    kv::PublishBlocks publish;
    publish.epoch = epoch_;
    publish.lock = publish_lock(sequence, first);
    publish.domain = sequence.admission->key_domain;
    if (first > 0) publish.parent = sequence.keys[first - 1];
    while (sequence.published < end && publish_lock(sequence, sequence.published) == publish.lock) {
      publish.keys.push_back(sequence.keys[sequence.published]);
      publish.blocks.push_back(sequence.table[sequence.published]);
      published_keys_.add(publish.keys.back());
      ++sequence.published;
    }
    publish.tokens.assign(sequence.tokens.begin() + first * kBlockTokens, sequence.tokens.begin() + sequence.published * kBlockTokens);
    output_.publishes.push_back(std::move(publish));
  }
}

/// At the end of a sequence: its last, partly written block becomes a leaf that a fork may copy from.
void Scheduler::State::publish_tail(Sequence& sequence) {
  const std::uint32_t known = std::min(sequence.computed, static_cast<std::uint32_t>(sequence.tokens.size()));
  const std::uint32_t first = sequence.published * kBlockTokens;
  if (known <= first || sequence.table.size() <= sequence.published) return;
  kv::PublishBlocks publish;
  publish.epoch = epoch_;
  publish.lock = publish_lock(sequence, sequence.published);
  publish.domain = sequence.admission->key_domain;
  if (sequence.published > 0) publish.parent = sequence.keys[sequence.published - 1];
  publish.blocks.push_back(sequence.table[sequence.published]);
  publish.tail = static_cast<std::uint16_t>(known - first);
  publish.tokens.assign(sequence.tokens.begin() + first, sequence.tokens.begin() + known);
  output_.publishes.push_back(std::move(publish));
  ++sequence.published;
}

}  // namespace troupe::schedule
