#include "tests/runtime/schedule/replica_harness.h"

#include "runtime/kv/block_key.h"

#include <algorithm>
#include <stdexcept>

namespace troupe::schedule::test {
namespace {
constexpr Hash128 kDomain{1, 2};

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error(what);
}
}  // namespace

std::vector<TokenId> make_prompt(std::uint64_t stream, std::uint32_t length) {
  std::vector<TokenId> tokens;
  std::uint64_t hash = stream * 77;
  while (tokens.size() < length) {
    hash = extend_hash(hash, 3);
    const auto token = static_cast<TokenId>(hash % kVocabulary);
    tokens.push_back(token == kEos ? 8 : token);
  }
  return tokens;
}

AdmitSequence make_request(std::uint64_t number, std::vector<TokenId> prompt, std::uint32_t max_tokens) {
  AdmitSequence request;
  request.request = RequestId{number};
  request.key_domain = kDomain;
  request.keys = kv::block_keys(kDomain, prompt);
  request.tokens = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.seed = number;
  return request;
}

ReplicaHarness::ReplicaHarness(SchedulerOptions options) : options_(options), scheduler_(options) {}

void ReplicaHarness::ready(std::uint32_t blocks, std::uint32_t context) {
  epoch_ = GroupEpoch{epoch_.value + 1};
  blocks_ = blocks;
  context_ = context;
  tier_.begin_epoch(epoch_, blocks);
  below_.end_epoch();
  serving_ = true;
  shard_.enter_epoch(epoch_, blocks);
  ledger_.clear();
  shard_.stages = stages;
  shard_.ranks = stages * tensor_ranks;
  sent_.clear();
  stage_free_.assign(stages, now_);
  scheduler_.on_group_ready({epoch_, blocks, context, shard_.ranks, 0, disk_read_us, stages, speed}, now_);
  pump();
}

void ReplicaHarness::lose(bool final) {
  Error error;
  error.client_text = "the engine was lost";
  error.error_class = ErrorClass::kGroupLost;
  shard_.enter_epoch(GroupEpoch{}, blocks_);
  tier_.begin_epoch(GroupEpoch{}, 0);
  below_.end_epoch();
  serving_ = false;
  ledger_.clear();
  scheduler_.on_group_lost(epoch_, final, error, now_);
  pump();
}

void ReplicaHarness::submit(AdmitSequence request) {
  request.sampling.seed = request.request.value;
  outcomes_[request.request.value].request = request;
  scheduler_.admit(std::move(request), now_);
  pump();
}

void ReplicaHarness::abort(std::uint64_t request, std::vector<std::uint16_t> choices) {
  RequestOutcome& outcome = outcomes_.at(request);
  const AdmitSequence& admitted = outcome.request;
  for (std::uint16_t i = 0; i < admitted.choices; ++i) {
    const auto choice = static_cast<std::uint16_t>(admitted.first_choice + i);
    if (choices.empty() || std::find(choices.begin(), choices.end(), choice) != choices.end()) outcome.choices[choice].aborted = true;
  }
  scheduler_.abort({RequestId{request}, admitted.attempt, std::move(choices)}, now_);
  pump();
}

void ReplicaHarness::advance_time(std::chrono::microseconds by) {
  now_ += by;
  if (wake_at_ && *wake_at_ <= now_) {
    scheduler_.on_time(now_);
    pump();
  }
}

void ReplicaHarness::drain() {
  scheduler_.drain(now_);
  pump();
}

void ReplicaHarness::pump() {
  SchedulerOutput output = scheduler_.take_output();
  for (auto& plan : output.plans) {
    require(plan.epoch == epoch_, "plan of another epoch");
    shard_.accept(plan);
    sent_.push_back(now_);
    require(stages > 1 || shard_.plans_in_flight() <= options_.plans_in_flight, "too many plans in flight");
    require(plan.tokens.size() <= options_.token_budget, "plan beyond the token budget");
    plans_.push_back(std::move(plan));
  }
  for (const auto& moves : output.moves) {
    require(moves.epoch == epoch_, "moves of another epoch");
    below_.accept(moves, shard_);
  }
  for (auto& publish : output.publishes) {
    if (publish.epoch == epoch_) ledger_.published(publish);
    to_tier_.push_back(std::move(publish));
  }
  for (auto& load : output.finished_loads) to_tier_.push_back(std::move(load));
  for (auto& release : output.releases) {
    if (release.epoch == epoch_)
      for (BlockId block : ledger_.released(release)) {
        require(!shard_.named_in_flight(block), "released block " + std::to_string(block) + " while a plan in flight names it");
        require(!below_.moving(block), "released block " + std::to_string(block) + " while it is loaded");
      }
    to_tier_.push_back(std::move(release));
  }
  for (auto& match : output.matches) to_tier_.push_back(std::move(match));
  for (auto& lease : output.leases) to_tier_.push_back(std::move(lease));
  for (const auto& message : output.admitted) outcomes_.at(message.request.value).admitted = true;
  for (const auto& message : output.refused) outcomes_.at(message.request.value).refused = message.error;
  for (const auto& message : output.scored) take(message);
  for (const auto& message : output.tokens) take(message);
  for (const auto& load : output.loads) {
    require(loads_.empty() || load.number > loads_.back().number, "load numbers do not grow");
    loads_.push_back(load);
  }
  wake_at_ = output.wake_at;
}

void ReplicaHarness::take(const TokensGenerated& message) {
  RequestOutcome& outcome = outcomes_.at(message.request.value);
  ChoiceOutcome& choice = outcome.choices[message.choice];
  require(choice.finish == Finish::kRunning, "a message after the finish");
  require(!choice.aborted, "a message after the abort");
  require(message.first == choice.tokens.size(), "tokens with a gap");
  if (message.has_cache_report) {
    require(!outcome.report, "two cache reports");
    outcome.report = message.cache;
  }
  choice.tokens.insert(choice.tokens.end(), message.tokens.begin(), message.tokens.end());
  choice.message_sizes.push_back(message.tokens.size());
  if (choice.message_sizes.size() > 1) choice.longest_gap = std::max(choice.longest_gap, now_ - choice.last_message);
  choice.last_message = now_;
  choice.logprobs.chosen.insert(choice.logprobs.chosen.end(), message.logprobs.chosen.begin(), message.logprobs.chosen.end());
  choice.logprobs.ids.insert(choice.logprobs.ids.end(), message.logprobs.ids.begin(), message.logprobs.ids.end());
  choice.finish = message.finish;
  choice.stop_token = message.stop_token;
  choice.error = message.error;
}

void ReplicaHarness::take(const PromptScored& message) {
  RequestOutcome& outcome = outcomes_.at(message.request.value);
  if (outcome.scored_from == kNone32) outcome.scored_from = message.first;
  require(message.first == outcome.scored_from + outcome.scores.chosen.size(), "scores with a gap");
  outcome.scores.chosen.insert(outcome.scores.chosen.end(), message.logprobs.chosen.begin(), message.logprobs.chosen.end());
}

bool ReplicaHarness::tier_step() {
  if (to_tier_.empty()) return false;
  const ToTier message = std::move(to_tier_.front());
  to_tier_.pop_front();
  if (const auto* match = std::get_if<kv::Match>(&message)) {
    to_scheduler_.push_back(tier_.match(*match));
    auto& reply = std::get<kv::PrefixMatched>(to_scheduler_.back());
    if (reply.epoch != epoch_) return true;
    ledger_.matched(reply);
    below_.extend(reply, *match);
  } else if (const auto* lease = std::get_if<kv::LeaseBlocks>(&message)) {
    kv::LeaseBlocks now = *lease, later = *lease;
    if (leases_in_parts && lease->epoch == epoch_) now.blocks = std::max(lease->blocks / 2, 1U);
    auto reply = tier_.lease(now);
    if (reply.epoch == epoch_) ledger_.leased(reply);
    later.blocks -= kv::count_blocks(reply.ranges);
    reply.more_follow = now.blocks < lease->blocks && kv::count_blocks(reply.ranges) == now.blocks;
    if (reply.more_follow) to_tier_.emplace_back(later);
    to_scheduler_.push_back(std::move(reply));
  } else if (const auto* publish = std::get_if<kv::PublishBlocks>(&message)) {
    if (publish->epoch == epoch_ && serving_) below_.write_down(*publish, shard_);
    tier_.publish(*publish);
  } else if (const auto* load = std::get_if<kv::LoadFinished>(&message)) {
    if (load->epoch == epoch_ && serving_) below_.finish(*load);
  } else {
    const auto& release = std::get<kv::ReleaseBlocks>(message);
    tier_.release(release);
    if (release.epoch == epoch_ && serving_) below_.release(release);
  }
  return true;
}

bool ReplicaHarness::reply_step() {
  if (to_scheduler_.empty()) return false;
  const ToScheduler message = std::move(to_scheduler_.front());
  to_scheduler_.pop_front();
  if (const auto* match = std::get_if<kv::PrefixMatched>(&message))
    scheduler_.on_prefix_matched(*match, now_);
  else
    scheduler_.on_blocks_leased(std::get<kv::BlocksLeased>(message), now_);
  pump();
  return true;
}

/// With stages the last one's time is told, waits for the others included.
plan::ForwardResult ReplicaHarness::run_plan() {
  plan::ForwardResult result = shard_.run_next();
  const TimePoint begin = std::max(sent_.front(), stage_free_.back());
  TimePoint end = sent_.front();
  sent_.pop_front();
  if (stages == 1) return result;
  for (TimePoint& free : stage_free_) free = end = std::max(end, free) + std::chrono::microseconds(result.compute_us);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(end - begin).count();
  result.wait_us += static_cast<std::uint32_t>(took) - result.compute_us;
  result.compute_us = static_cast<std::uint32_t>(took);
  return result;
}

bool ReplicaHarness::shard_step() {
  if (!shard_.has_plan()) return false;
  const plan::ForwardResult result = run_plan();
  const TimePoint end = stages == 1 ? now_ + std::chrono::microseconds(result.compute_us) : std::max(now_, stage_free_.back());
  for (int wakes = 0; wake_at_ && *wake_at_ <= end; ++wakes) {
    require(wakes < 10000, "woken for nothing");
    now_ = std::max(now_, *wake_at_);
    scheduler_.on_time(now_);
    pump();
  }
  now_ = end;
  scheduler_.on_result(result, now_);
  pump();
  return true;
}

bool ReplicaHarness::move_step(bool any) {
  if (!below_.moving()) return false;
  advance_time(std::chrono::microseconds(below_.move_us()));
  const plan::MovesFinished finished = below_.move(shard_, any);
  for (std::uint32_t rank = 0; rank < shard_.ranks; ++rank) scheduler_.on_moves_finished(finished, now_);
  pump();
  return true;
}

void ReplicaHarness::settle() {
  while (tier_step() || reply_step()) {
  }
}

void ReplicaHarness::run_to_idle(std::size_t most_steps) {
  for (settle(); !scheduler_.idle() || !to_tier_.empty(); settle()) {
    require(most_steps-- > 0, "still running after the last step allowed");
    require(shard_step() || move_step(), "nothing moves, and the scheduler is not idle");
  }
}

void ReplicaHarness::check_outcome(std::uint64_t number) const {
  const RequestOutcome& outcome = outcomes_.at(number);
  const AdmitSequence& request = outcome.request;
  if (outcome.refused) {
    require(!outcome.admitted && outcome.choices.empty(), "refused, and yet answered");
    return;
  }
  const std::string name = "request " + std::to_string(number);
  const std::uint32_t room =
      std::min<std::uint64_t>(context_, std::uint64_t{blocks_} * kBlockTokens) - static_cast<std::uint32_t>(request.tokens.size());
  const std::uint32_t limit = std::min(request.max_tokens, room);
  for (std::uint16_t i = 0; i < request.choices; ++i) {
    const auto index = static_cast<std::uint16_t>(request.first_choice + i);
    const auto at = outcome.choices.find(index);
    require(at != outcome.choices.end(), name + ": a choice without a message");
    const ChoiceOutcome& choice = at->second;
    if (!choice.aborted) require(choice.finish != Finish::kRunning, name + ": no finish");
    const auto reference = reference_tokens(request.tokens, request.sampling.seed, index, limit, request.ignore_eos);
    const bool stops = !request.ignore_eos && !reference.empty() && reference.back() == kEos;
    const std::size_t expected = reference.size() - (stops ? 1 : 0);
    require(choice.tokens.size() <= expected && std::equal(choice.tokens.begin(), choice.tokens.end(), reference.begin()),
            name + ": tokens differ from an undisturbed run");
    if (choice.aborted || choice.finish == Finish::kFailed) continue;
    require(choice.tokens.size() == expected, name + ": tokens are missing");
    require(choice.finish == (stops ? Finish::kStop : Finish::kLength), name + ": wrong finish");
    require(!stops || choice.stop_token == kEos, name + ": wrong stop token");
    if (request.sampling.top_logprobs == plan::kNoLogprobs) continue;
    require(choice.logprobs.chosen.size() == expected && choice.logprobs.ids.size() == expected * request.sampling.top_logprobs,
            name + ": log-probabilities are missing");
    std::uint64_t hash = 0;
    for (TokenId token : request.tokens) hash = extend_hash(hash, token);
    for (std::size_t k = 0; k < expected; ++k) {
      require(choice.logprobs.chosen[k] == score_token(hash, reference[k]), name + ": wrong log-probability");
      hash = extend_hash(hash, reference[k]);
    }
  }
  if (request.score_from == kNone32 || std::max(request.score_from, 1U) >= request.tokens.size() || outcome.choices.begin()->second.aborted)
    return;
  const std::uint32_t from = std::max(request.score_from, 1U);
  require(outcome.scored_from == from && outcome.scores.chosen.size() == request.tokens.size() - from, name + ": scores are missing");
  std::uint64_t hash = 0;
  for (std::uint32_t k = 0; k < request.tokens.size(); ++k) {
    if (k >= from) require(outcome.scores.chosen[k - from] == score_token(hash, request.tokens[k]), name + ": wrong score");
    hash = extend_hash(hash, request.tokens[k]);
  }
}

void ReplicaHarness::check_conservation() {
  settle();
  require(scheduler_.idle(), "scheduler is not idle");
  const kv::DeviceTierStats stats = tier_.stats();
  tier_.check_invariants();
  require(stats.free + stats.leased + stats.cached == stats.total, "blocks do not add up");
  require(stats.locked == 0, "a lock was left");
  require(!below_.locked() && !below_.moving(), "a lock or a move was left below the device");
  require(stats.leased == scheduler_.stats().leased_blocks, "a block was lost");
}

}  // namespace troupe::schedule::test
