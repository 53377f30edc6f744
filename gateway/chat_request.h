// The body of POST /v1/chat/completions, checked. Pure, any thread.
#pragma once
#include "gateway/model_request.h"

namespace troupe::gateway {

struct ChatRequest {
  ModelRequest engine;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
};

/// Errors (400) name the field and its limit.
Result<ChatRequest> parse_chat_request(const nlohmann::json& body, const Limits& limits);

}  // namespace troupe::gateway
