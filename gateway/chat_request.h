// The body of POST /v1/chat/completions, checked. Pure, any thread.
#pragma once
#include "gateway/model_request.h"

namespace troupe::gateway {

struct ChatRequest {
  ModelRequest engine;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
};

/// The field `messages`: roles, contents, tool calls.
std::vector<InputItem> parse_messages(JsonFields& fields, const Limits& limits, std::optional<Error>& error);
/// stream and stream_options.
void parse_stream(JsonFields& fields, std::optional<Error>& error, bool& stream, bool& include_usage);
/// prompt_logprobs, which no stream has; want_logprobs() comes behind it.
void parse_prompt_logprobs(JsonFields& fields, bool stream, ModelRequest& out);
/// Errors (400) name the field and its limit.
Result<ChatRequest> parse_chat_request(const JsonBody& body, const Limits& limits);

}  // namespace troupe::gateway
