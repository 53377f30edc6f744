// The `response.create` event of a Responses WebSocket, checked. Pure, any thread.
#pragma once
#include "gateway/model_request.h"

namespace troupe::gateway {

struct ResponsesRequest {
  ModelRequest engine;
  bool store = true;
  bool generate = true;   // false: warm-up, the prompt is computed and kept, nothing is generated
  nlohmann::json echoed;  // fields that the response object repeats: instructions, temperature, tools, metadata, ...
};

/// The lane of an event (`stream_id`), also of one that is otherwise faulty; empty = the only lane.
std::string lane_of(const nlohmann::json& event);
/// Errors (400) name the field and its limit.
Result<ResponsesRequest> parse_responses_request(const nlohmann::json& event, const Limits& limits);

}  // namespace troupe::gateway
