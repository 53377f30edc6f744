// The body of POST /v1/responses, or a `response.create` event of a Responses WebSocket, checked. Pure, any thread.
#pragma once
#include "gateway/model_request.h"

namespace troupe::gateway {

struct ResponsesRequest {
  ModelRequest engine;
  bool store = true;
  bool continuable = true;     // the engine keeps it, at least as long as the connection
  bool stream = false;         // events as they come; a WebSocket always does
  bool generate = true;        // false: warm-up, the prompt is computed and kept, nothing is generated
  nlohmann::json input_items;  // the input as an array of items
  nlohmann::json echoed;       // fields that the response object repeats: instructions, temperature, tools, metadata, ...
};

/// The lane of an event (`stream_id`), also of one that is otherwise faulty; empty = the only lane.
std::string lane_of(const nlohmann::json& event);
enum class ResponsesTransport { kHttp, kWebSocket };
/// Errors (400) name the field and its limit.
Result<ResponsesRequest> parse_responses_request(const JsonBody& event, const Limits& limits,
                                                 ResponsesTransport transport = ResponsesTransport::kWebSocket);
/// The body of POST /v1/responses/input_tokens: how many tokens its prompt would have.
Result<ModelRequest> parse_input_tokens_request(const JsonBody& body, const Limits& limits);

}  // namespace troupe::gateway
