// Stage 1 of a sequence: admitted into the bounded queue or refused at once; aborts and deadlines take it out again.
#include "messages/error_reasons.h"
#include "runtime/kv/block_key.h"
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::schedule {
namespace {
constexpr std::uint16_t kMostChoices = 128;
constexpr std::uint32_t kShortestRetryMs = 1000, kLongestRetryMs = 60000;
}  // namespace

void Scheduler::State::admit(AdmitSequence request, TimePoint now) {
  if (const auto error = refusal(request)) {
    output_.refused.push_back({request.request, request.attempt, request.first_choice, *error});
    return advance(now);
  }
  output_.admitted.push_back({request.request, request.attempt, request.first_choice,
                              static_cast<std::uint32_t>(waiting_.size() + candidates_.size()), expected_ms()});
  const auto admission = make_admission(request, now);
  if (request.keys.size() != request.tokens.size() / kBlockTokens) request.keys = kv::block_keys(request.key_domain, request.tokens);
  Sequence* first = nullptr;
  for (std::uint16_t i = 0; i < request.choices; ++i) {
    auto sequence = std::make_unique<Sequence>();
    sequence->number = ++last_number_;
    sequence->admission = admission;
    sequence->choice = static_cast<std::uint16_t>(request.first_choice + i);
    by_request_.emplace(request.request, sequence->number);
    if (first == nullptr) {
      first = sequence.get();
      first->scores = true;
      first->tokens = std::move(request.tokens);
      first->keys = std::move(request.keys);
      waiting_.push_back(first);
    } else {
      sequence->state = SequenceState::kAttached;
      first->attached.push_back(sequence->number);
    }
    sequences_.emplace(sequence->number, std::move(sequence));
  }
  advance(now);
}

std::optional<Error> Scheduler::State::refusal(const AdmitSequence& request) const {
  if (lost_for_good_) return *lost_for_good_;
  if (draining_)
    return make_error(ErrorClass::kUnavailable, ErrorReason::kDraining, "the server is shutting down; try another one", {}, {},
                      kShortestRetryMs);
  if (request.tokens.empty())
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "the prompt has no tokens", "prompt");
  if (request.choices == 0 || request.choices > kMostChoices || request.first_choice > 0xffff - request.choices)
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue,
                      "n must be between 1 and " + std::to_string(kMostChoices) + ", not " + std::to_string(request.choices), "n");
  if (request.generated > request.tokens.size())
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "more generated tokens than tokens", "generated");
  const auto [begin, end] = by_request_.equal_range(request.request);
  for (auto at = begin; at != end; ++at) {
    const Sequence& known = *sequences_.at(at->second);
    if (!known.ended && known.admission->attempt == request.attempt && known.choice >= request.first_choice &&
        known.choice < request.first_choice + request.choices)
      return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "this request is already admitted", "request");
  }
  if (auto error = does_not_fit(static_cast<std::uint32_t>(request.tokens.size()), request.max_tokens > 0)) return error;
  const std::uint64_t queued = waiting_tokens();
  if (!waiting_.empty() &&
      (waiting_.size() >= options_.max_queued_requests || queued + request.tokens.size() > options_.max_queued_tokens)) {
    const double wait_ms = static_cast<double>(queued) * cost_.prefill_token_us() / 1000;
    return make_error(
        ErrorClass::kOverloaded, ErrorReason::kQueueFull,
        "the queue is full (" + std::to_string(waiting_.size()) + " requests, " + std::to_string(queued) + " tokens); try again later", {},
        {}, static_cast<std::uint32_t>(std::clamp<double>(wait_ms, kShortestRetryMs, kLongestRetryMs)));
  }
  return std::nullopt;
}

std::optional<Error> Scheduler::State::does_not_fit(std::uint32_t tokens, bool generates) const {
  const std::uint64_t least = std::uint64_t{tokens} + (generates ? 1 : 0);
  if (context_tokens_ > 0 && least > context_tokens_)
    return make_error(ErrorClass::kContextTooLong, ErrorReason::kContextLength,
                      "the model's context length is " + std::to_string(context_tokens_) + " tokens, but the prompt has " +
                          std::to_string(tokens) + " tokens" + (generates && tokens == context_tokens_ ? ", which leaves no room" : "") +
                          "; shorten it",
                      "prompt");
  const std::uint64_t positions = std::uint64_t{total_blocks_} * kBlockTokens;
  if (total_blocks_ > 0 && least > positions)
    return make_error(ErrorClass::kContextTooLong, ErrorReason::kNotEnoughBlocks,
                      "the KV memory holds " + std::to_string(positions) + " tokens, but the prompt has " + std::to_string(tokens) +
                          " tokens; shorten it, or start the server with more KV memory",
                      "prompt");
  return std::nullopt;
}

std::shared_ptr<Admission> Scheduler::State::make_admission(const AdmitSequence& request, TimePoint now) const {
  auto admission = std::make_shared<Admission>();
  admission->request = request.request;
  admission->attempt = request.attempt;
  admission->choices = request.choices;
  admission->prompt_tokens = static_cast<std::uint32_t>(request.tokens.size());
  admission->generated_from = admission->prompt_tokens - request.generated;
  admission->max_tokens = request.max_tokens;
  admission->key_domain = request.key_domain;
  admission->owner = request.owner;
  admission->sampling = request.sampling;
  admission->stop_tokens = request.stop_tokens;
  if (!request.ignore_eos) admission->stop_tokens.insert(admission->stop_tokens.end(), options_.eos.begin(), options_.eos.end());
  // The first token follows nothing, so it has no score.
  if (request.score_from != kNone32) admission->next_score = std::max(request.score_from, 1U);
  admission->priority = request.priority;
  admission->admitted_at = now;
  if (request.deadline_ms > 0) admission->deadline = now + std::chrono::milliseconds(request.deadline_ms);
  return admission;
}

/// To the first token of who comes now: the queue's prompts, at the measured cost.
std::uint32_t Scheduler::State::expected_ms() const {
  const double us = static_cast<double>(waiting_tokens() + prefill_backlog()) * cost_.prefill_token_us() + cost_.smoothed_step_us();
  return static_cast<std::uint32_t>(std::min(us / 1000, 3.6e6));
}

std::uint32_t Scheduler::State::longest_sequence() const {
  std::uint64_t tokens = kNone32;
  if (context_tokens_ > 0) tokens = context_tokens_;
  if (total_blocks_ > 0) tokens = std::min(tokens, std::uint64_t{total_blocks_} * kBlockTokens);
  return static_cast<std::uint32_t>(tokens);
}

std::uint32_t Scheduler::State::generation_limit(const Admission& admission) const {
  const std::uint32_t longest = longest_sequence();
  return std::min(admission.max_tokens, longest - std::min(longest, admission.prompt_tokens));
}

void Scheduler::State::abort(const AbortSequence& request, TimePoint now) {
  std::vector<SequenceNumber> named;
  const auto [begin, end] = by_request_.equal_range(request.request);
  for (auto at = begin; at != end; ++at) {
    const Sequence& sequence = *sequences_.at(at->second);
    const bool chosen =
        request.choices.empty() || std::find(request.choices.begin(), request.choices.end(), sequence.choice) != request.choices.end();
    if (chosen && sequence.admission->attempt == request.attempt) named.push_back(sequence.number);
  }
  for (SequenceNumber number : named)
    if (Sequence* sequence = find(number); sequence != nullptr && !sequence->ended) end_sequence(*sequence);
  advance(now);
}

void Scheduler::State::on_time(TimePoint now) {
  delivery_.flush_due(
      now, [this](SequenceNumber number) { return find(number); }, output_.tokens);
  std::vector<SequenceNumber> late;
  for (const auto& [number, sequence] : sequences_)
    if (!sequence->ended && sequence->admission->deadline && *sequence->admission->deadline <= now) late.push_back(number);
  const Error error = make_error(ErrorClass::kDeadlineExceeded, ErrorReason::kDeadline, "the request's deadline has passed");
  for (SequenceNumber number : late)
    if (Sequence* sequence = find(number)) fail(*sequence, error, now);
  advance(now);
}

void Scheduler::State::fail(Sequence& sequence, const Error& error, TimePoint now) {
  sequence.outbox.error = error;
  finish(sequence, Finish::kFailed, 0, now);
}

void Scheduler::State::end_sequence(Sequence& sequence) {
  delivery_.forget(sequence);
  promote_attached(sequence);
  switch (sequence.state) {
    case SequenceState::kAttached: detach(sequence); return forget(sequence.number);
    case SequenceState::kWaiting: std::erase(waiting_, &sequence); return forget(sequence.number);
    case SequenceState::kMatching:
    case SequenceState::kMatched: {
      unmatch(sequence);
      std::erase(waiting_, &sequence);
      return forget(sequence.number);
    }
    case SequenceState::kLoading: sequence.ended = true; return;  // leaves when its moves have ended
    case SequenceState::kRunning: return leave(sequence, true);
    case SequenceState::kLeaving:
      sequence.ended = true;
      admission_hold_ = false;
      return;
  }
}

/// Choices that would have forked from `sequence` go on without it; what it computed of the prompt is in the cache for them.
void Scheduler::State::promote_attached(Sequence& sequence) {
  if (sequence.attached.empty()) return;
  Sequence& heir = *find(sequence.attached.front());
  heir.attached.assign(sequence.attached.begin() + 1, sequence.attached.end());
  heir.tokens = sequence.tokens;
  heir.keys = sequence.keys;
  heir.scores = std::exchange(sequence.scores, false);
  heir.state = SequenceState::kWaiting;
  waiting_.push_back(&heir);
  sequence.attached.clear();
}

void Scheduler::State::detach(Sequence& sequence) {
  const auto [begin, end] = by_request_.equal_range(sequence.admission->request);
  for (auto at = begin; at != end; ++at) std::erase(sequences_.at(at->second)->attached, sequence.number);
}

void Scheduler::State::forget(SequenceNumber number) {
  const auto [begin, end] = by_request_.equal_range(sequences_.at(number)->admission->request);
  by_request_.erase(std::find_if(begin, end, [number](const auto& entry) { return entry.second == number; }));
  sequences_.erase(number);
}

}  // namespace troupe::schedule
