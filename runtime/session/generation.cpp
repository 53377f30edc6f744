#include "runtime/session/generation.h"

#include "runtime/kv/block_key.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::session {
namespace {

/// Appends `count` entries of `from`, starting at entry `first`.
void append_logprobs(schedule::TopLogprobs& to, const schedule::TopLogprobs& from, std::size_t first, std::size_t count) {
  const std::size_t last = std::min(first + count, from.chosen.size());
  if (first >= last) return;
  to.width = from.width;
  const auto copy = [](auto& target, const auto& source, std::size_t begin, std::size_t end) {
    target.insert(target.end(), source.begin() + static_cast<std::ptrdiff_t>(begin), source.begin() + static_cast<std::ptrdiff_t>(end));
  };
  copy(to.chosen, from.chosen, first, last);
  copy(to.ids, from.ids, first * from.width, last * from.width);
  copy(to.logprobs, from.logprobs, first * from.width, last * from.width);
}

}  // namespace

Generation::Generation(const Request& request, std::shared_ptr<const text::Tokenizer> tokenizer, std::vector<TokenId> prompt,
                       std::uint32_t max_tokens)
    : request_(request), tokenizer_(std::move(tokenizer)), prompt_(std::move(prompt)), max_tokens_(max_tokens) {
  choices_.reserve(request.choices);
  for (std::uint16_t i = 0; i < request.choices; ++i) choices_.emplace_back(text::StreamDecoder(tokenizer_, request.stops));
  echo_due_ = request.echo;
  if (echo_due_ && scores_complete()) echo_prompt();
}

bool Generation::scores_complete() const {
  if (request_.score_from == kNone32) return true;
  return std::max(request_.score_from, 1U) + prompt_logprobs_.chosen.size() >= prompt_.size();
}

void Generation::echo_prompt() {
  echo_due_ = false;
  const std::string text = text::to_valid_utf8(tokenizer_->decode(prompt_));
  const bool log = request_.wants_logprobs() && request_.score_from != kNone32;
  schedule::TopLogprobs none;  // for tokens without a score: the first
  none.width = log ? request_.sampling.top_logprobs : 0;
  none.chosen = {std::numeric_limits<float>::quiet_NaN()};
  none.ids.assign(none.width, kNone32);
  none.logprobs.assign(none.width, std::numeric_limits<float>::quiet_NaN());
  const std::size_t unscored = prompt_.size() - prompt_logprobs_.chosen.size();
  for (std::uint16_t i = 0; i < choices_.size(); ++i) {
    auto& piece = piece_of(i);
    piece.text += text;
    pending_bytes_ += text.size();
    if (!log) continue;
    for (const TokenId id : prompt_) add_token(piece, choices_[i], id, true);
    for (std::size_t t = 0; t < unscored; ++t) append_logprobs(piece.logprobs, none, 0, 1);
    append_logprobs(piece.logprobs, prompt_logprobs_, 0, prompt_logprobs_.chosen.size());
  }
}

void Generation::add_token(Piece& piece, Choice& choice, TokenId id, bool gives_text) {
  piece.token_ids.push_back(id);
  piece.token_texts.emplace_back(tokenizer_->bytes(id));
  piece.token_offsets.push_back(choice.characters.count());
  piece.controls.push_back(tokenizer_->is_control(id));
  if (gives_text) choice.characters.add(piece.token_texts.back());
  pending_bytes_ += 64 * (1 + std::size_t{request_.sampling.top_logprobs});  // ids, numbers and texts of it and its alternatives
}

std::vector<schedule::AdmitSequence> Generation::admissions(std::uint16_t attempt, const Hash128& key_domain) {
  attempt_ = attempt;
  schedule::AdmitSequence common;
  common.request = request_.request;
  common.attempt = attempt;
  common.key_domain = key_domain;
  common.sampling = request_.sampling;
  common.stop_tokens = request_.stop_tokens;
  common.ignore_eos = request_.ignore_eos;
  common.priority = request_.priority;
  common.owner = request_.owner;
  std::vector<schedule::AdmitSequence> admissions;
  if (attempt == 0) {
    auto& admit = admissions.emplace_back(std::move(common));
    admit.tokens = prompt_;
    admit.keys = kv::block_keys(key_domain, admit.tokens);
    admit.choices = request_.choices;
    admit.max_tokens = max_tokens_;
    admit.score_from = request_.score_from;
    return admissions;
  }
  bool scored = scores_complete();
  if (!scored) prompt_logprobs_ = {};  // from the start again
  for (std::uint16_t i = 0; i < choices_.size(); ++i) {
    auto& choice = choices_[i];
    if (choice.end) continue;
    choice.base = static_cast<std::uint32_t>(choice.ids.size());
    auto& admit = admissions.emplace_back(common);
    admit.tokens = prompt_;
    admit.tokens.insert(admit.tokens.end(), choice.ids.begin(), choice.ids.end());
    admit.keys = kv::block_keys(key_domain, admit.tokens);
    admit.generated = choice.base;
    admit.first_choice = i;
    admit.max_tokens = max_tokens_ == kNone32 ? kNone32 : max_tokens_ - std::min(max_tokens_, choice.base);
    if (!std::exchange(scored, true)) admit.score_from = request_.score_from;  // one of them does
  }
  return admissions;
}

bool Generation::on_tokens(const schedule::TokensGenerated& message) {
  if (message.attempt != attempt_ || message.choice >= choices_.size() || failure_) return false;
  auto& choice = choices_[message.choice];
  if (message.has_cache_report && !cache_) cache_ = message.cache;
  if (choice.end) return false;
  TROUPE_CHECK(choice.base + message.first == choice.ids.size());
  for (std::size_t i = 0; i < message.tokens.size(); ++i) {
    choice.ids.push_back(message.tokens[i]);
    if (request_.wants_logprobs()) append_logprobs(choice.logprobs, message.logprobs, i, 1);
    release(message.choice, choice.decoder.push(message.tokens[i]));
    if (choice.decoder.stopped()) return message.finish == schedule::Finish::kRunning;
  }
  switch (message.finish) {
    case schedule::Finish::kRunning: break;
    case schedule::Finish::kStop: finish(message.choice, ChoiceReason::kStop); break;
    case schedule::Finish::kLength: finish(message.choice, ChoiceReason::kLength); break;
    case schedule::Finish::kFailed: failure_ = message.error; break;
  }
  return false;
}

void Generation::on_scored(const schedule::PromptScored& message) {
  if (message.attempt != attempt_ || scores_complete()) return;
  TROUPE_CHECK(message.first == std::max(request_.score_from, 1U) + prompt_logprobs_.chosen.size());
  append_logprobs(prompt_logprobs_, message.logprobs, 0,
                  std::min<std::size_t>(message.logprobs.chosen.size(), prompt_.size() - message.first));
  if (echo_due_ && scores_complete()) echo_prompt();
}

Piece& Generation::piece_of(std::uint16_t index) {
  for (auto& piece : pieces_)
    if (piece.choice == index) return piece;
  auto& piece = pieces_.emplace_back();
  piece.choice = index;
  return piece;
}

/// Hands out what the decoder let go; ends the choice where a stop string matched.
void Generation::release(std::uint16_t index, text::StreamDecoder::Piece released) {
  auto& choice = choices_[index];
  if (index == 0) first_text_ += released.text;
  const bool log = request_.wants_logprobs();
  if (!released.text.empty() || (log && released.tokens > 0)) {
    auto& piece = piece_of(index);
    piece.text += released.text;
    pending_bytes_ += released.text.size();
    piece.tokens += released.tokens;
    if (log) {
      append_logprobs(piece.logprobs, choice.logprobs, choice.released, released.tokens);
      for (std::uint32_t i = choice.released; i < choice.released + released.tokens && i < choice.ids.size(); ++i)
        add_token(piece, choice, choice.ids[i], !tokenizer_->is_control(choice.ids[i]));
    }
  }
  choice.released += released.tokens;
  if (released.stop) choice.end = ChoiceEnd{ChoiceReason::kStop, choice.decoder.tokens_before_stop(), std::move(released.stop)};
}

void Generation::finish(std::uint16_t index, ChoiceReason reason) {
  auto& choice = choices_[index];
  release(index, choice.decoder.finish());
  if (!choice.end) choice.end = ChoiceEnd{reason, static_cast<std::uint32_t>(choice.ids.size()), std::nullopt};
}

void Generation::cancel() {
  for (std::uint16_t i = 0; i < choices_.size(); ++i)
    if (!choices_[i].end) finish(i, ChoiceReason::kCancelled);
}

bool Generation::done() const {
  return failure_ || std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) { return choice.end.has_value(); });
}

std::vector<Piece> Generation::take_pieces() {
  // Alternatives behind the chosen ones: only now is it known how many tokens a piece has gathered.
  for (auto& piece : pieces_)
    for (const TokenId id : piece.logprobs.ids) piece.token_texts.emplace_back(tokenizer_->bytes(id));
  pending_bytes_ = 0;
  return std::exchange(pieces_, {});
}

std::vector<ChoiceEnd> Generation::ends() const {
  std::vector<ChoiceEnd> ends;
  for (const auto& choice : choices_) ends.push_back(choice.end.value_or(ChoiceEnd{ChoiceReason::kCancelled, 0, std::nullopt}));
  return ends;
}

std::uint32_t Generation::output_tokens() const {
  std::uint32_t total = 0;
  for (const auto& choice : choices_) total += choice.end ? choice.end->output_tokens : static_cast<std::uint32_t>(choice.ids.size());
  return total;
}

std::vector<TokenId> Generation::stored_tokens() const {
  const auto& choice = choices_.front();
  const std::size_t count = choice.end && choice.end->stop ? choice.decoder.tokens_before_stop() : choice.ids.size();
  auto tokens = prompt_;
  tokens.insert(tokens.end(), choice.ids.begin(), choice.ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, choice.ids.size())));
  return tokens;
}

}  // namespace troupe::session
