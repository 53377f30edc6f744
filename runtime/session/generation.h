// Generation: all choices of one request while they are generated: ids so far, detokenizer, stop strings, usage, what may be sent.
// Knows no actors: the RequestSession feeds it TokensGenerated and sends what it hands out. One thread at a time.
// Invariants: ids of a choice grow without gaps over all attempts; a choice ends once; text behind a stop string is never handed out,
// its tokens are neither billed nor stored. An echoed prompt comes first in each choice, with its log-probabilities where those are wanted.
#pragma once
#include "runtime/schedule/admission.h"
#include "runtime/session/request.h"
#include "runtime/text/stream_decoder.h"
#include "runtime/text/utf8.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::session {

/// Text that may be sent, and the tokens it brings to completion.
struct Piece {
  std::uint16_t choice = 0;
  std::string text;
  std::uint32_t tokens = 0;
  std::vector<TokenId> token_ids;  // with logprobs only, like the two below
  schedule::TopLogprobs logprobs;
  std::vector<std::string> token_texts;      // bytes of each token, then of each entry of logprobs.ids
  std::vector<std::uint32_t> token_offsets;  // characters of the choice's text before each token
  std::vector<bool> controls;                // whether each token is a control token
};

enum class ChoiceReason : std::uint16_t { kStop, kLength, kToolCalls, kCancelled };
struct ChoiceEnd {
  ChoiceReason reason = ChoiceReason::kStop;
  std::uint32_t output_tokens = 0;
  std::optional<std::string> stop;  // the stop string that matched
};

class Generation {
 public:
  Generation(const Request& request, std::shared_ptr<const text::Tokenizer> tokenizer, std::vector<TokenId> prompt,
             std::uint32_t max_tokens);

  /// Admissions of attempt 0 (one for all choices), or of a later attempt (one a choice that has not ended: prompt + tokens so far).
  std::vector<schedule::AdmitSequence> admissions(std::uint16_t attempt, const Hash128& key_domain);
  /// True if the choice's sequence runs on and must be aborted: a stop string has ended it here. An older attempt's message is dropped.
  bool on_tokens(const schedule::TokensGenerated& message);
  void on_scored(const schedule::PromptScored& message);
  /// Ends what still runs as cancelled.
  void cancel();

  bool done() const;  // all choices have ended, or one has failed
  const std::optional<Error>& failure() const { return failure_; }
  bool has_pieces() const { return !pieces_.empty(); }
  /// What take_pieces() would give, about.
  std::size_t pending_bytes() const { return pending_bytes_; }
  /// What came since the last call, text of one choice joined.
  std::vector<Piece> take_pieces();

  std::vector<ChoiceEnd> ends() const;
  std::uint32_t prompt_tokens() const { return static_cast<std::uint32_t>(prompt_.size()); }
  std::uint32_t output_tokens() const;
  const std::vector<TokenId>& prompt() const { return prompt_; }
  /// Ids of choice 0 that may be stored and continued, and its text.
  std::vector<TokenId> stored_tokens() const;
  const std::string& stored_text() const { return first_text_; }
  const std::optional<kv::CacheReport>& cache_report() const { return cache_; }
  /// Of the prompt's tokens from Request::score_from on, but never of the first, which follows nothing.
  const schedule::TopLogprobs& prompt_logprobs() const { return prompt_logprobs_; }

 private:
  struct Choice {
    explicit Choice(text::StreamDecoder d) : decoder(std::move(d)) {}
    text::StreamDecoder decoder;
    std::vector<TokenId> ids;
    schedule::TopLogprobs logprobs;     // of all ids; empty unless asked for
    std::uint32_t base = 0;             // ids there were when the present attempt was admitted
    std::uint32_t released = 0;         // tokens whose text was handed out
    text::CharacterCounter characters;  // of the text of those tokens, an echoed prompt included; with logprobs only
    std::optional<ChoiceEnd> end;
  };
  bool scores_complete() const;
  /// Puts the prompt before the text of every choice.
  void echo_prompt();
  void add_token(Piece& piece, Choice& choice, TokenId id, bool gives_text);
  void release(std::uint16_t index, text::StreamDecoder::Piece piece);
  void finish(std::uint16_t index, ChoiceReason reason);
  Piece& piece_of(std::uint16_t index);

  const Request& request_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::vector<TokenId> prompt_;
  std::uint32_t max_tokens_;
  std::uint16_t attempt_ = 0;
  std::vector<Choice> choices_;
  std::vector<Piece> pieces_;
  std::size_t pending_bytes_ = 0;
  std::string first_text_;
  std::optional<Error> failure_;
  std::optional<kv::CacheReport> cache_;
  schedule::TopLogprobs prompt_logprobs_;
  bool echo_due_ = false;
};

}  // namespace troupe::session
