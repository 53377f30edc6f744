// Pieces of JSON answers that the chat and responses endpoints share: strings, usage, log-probabilities, finish reasons. Pure.
#pragma once
#include "gateway/limits.h"
#include "messages/error.h"
#include "messages/request.capnp.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::gateway {

std::string_view text_of(capnp::Text::Reader text);
std::string_view bytes_of(capnp::Data::Reader data);
/// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 do not occur here: sessions send whole characters.
void append_json_string(std::string& out, std::string_view text);

/// Usage of the requests behind one answer: a completion of several prompts has several.
class UsageTotals {
 public:
  void add(messages::RequestFinished::Reader finished);
  /// {"prompt_tokens", "completion_tokens", "total_tokens", ...details}, with the cache report by tier.
  nlohmann::json chat() const;
  /// The same in Responses words: {"input_tokens", "output_tokens", ...}.
  nlohmann::json responses() const;

 private:
  nlohmann::json cache_details() const;
  std::uint64_t prompt_ = 0, output_ = 0, reasoning_ = 0;
  std::uint64_t device_ = 0, host_ = 0, disk_ = 0, computed_ = 0, load_us_ = 0;
  messages::MissReason miss_ = messages::MissReason::NONE;  // the first there was
  bool has_report_ = false, numerics_changed_ = false;
};
nlohmann::json chat_usage(messages::RequestFinished::Reader finished);
/// {"input_tokens", "output_tokens", "total_tokens", ...details}: the same in Responses words.
nlohmann::json responses_usage(messages::RequestFinished::Reader finished);

/// A token as a JSON string can hold it: its text, or "bytes:\\xf0\\x9f" where its bytes are no whole characters (OpenAI's way).
std::string token_name(std::string_view bytes);
/// A log-probability, with OpenAI's -9999 for minus infinity.
double logprob_value(float logprob);
/// One entry a token: {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}, at most `most` alternatives.
/// `bytes` of a control token, which gives no text, is null: those of all others together are the text.
/// piece.tokenTexts holds the bytes of the piece's tokens and then, where it does, those of logprobs.ids.
nlohmann::json logprob_entries(messages::DeltaPiece::Reader piece, unsigned most = 255);
/// vLLM's prompt_logprobs as JSON text: [null, {"<token id>": {"logprob", "rank", "decoded_token"}, ...}, ...], one entry a prompt token:
/// the best `most` and the token itself, whose rank is null where it is not among those computed.
std::string prompt_logprobs_text(messages::RequestFinished::Reader finished, unsigned most);

/// "stop", "length" or "tool_calls"; empty for a choice that was cancelled, which is an error and no reason.
std::string_view finish_reason(messages::FinishReason reason);
/// The error of a finished request: its own, or that it was cancelled before its end.
std::optional<Error> failure_of(messages::RequestFinished::Reader finished);

/// What a client is told of an answer that outgrows Limits::answer.
Error answer_too_large(const Limits& limits);

}  // namespace troupe::gateway
