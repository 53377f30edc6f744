// Pieces of JSON answers that the chat and responses endpoints share: strings, usage, log-probabilities, finish reasons. Pure.
#pragma once
#include "messages/error.h"
#include "messages/request.capnp.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace troupe::gateway {

std::string_view text_of(capnp::Text::Reader text);
/// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 do not occur here: sessions send whole characters.
void append_json_string(std::string& out, std::string_view text);

/// {"prompt_tokens", "completion_tokens", "total_tokens", ...details}, with the cache report by tier.
nlohmann::json chat_usage(messages::RequestFinished::Reader finished);
/// {"input_tokens", "output_tokens", "total_tokens", ...details}: the same in Responses words.
nlohmann::json responses_usage(messages::RequestFinished::Reader finished);

/// One entry a token: {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}.
/// piece.tokenTexts holds the bytes of the piece's tokens and then, where it does, those of logprobs.ids.
nlohmann::json logprob_entries(messages::DeltaPiece::Reader piece);

/// "stop", "length" or "tool_calls"; empty for a choice that was cancelled, which is an error and no reason.
std::string_view finish_reason(messages::FinishReason reason);
/// The error of a finished request: its own, or that it was cancelled before its end.
std::optional<Error> failure_of(messages::RequestFinished::Reader finished);

}  // namespace troupe::gateway
