// The body of POST /v1/completions, checked. Each prompt is a request of its own for the engine; choice c of prompt p has the index
// p * n + c. Pure, any thread.
#pragma once
#include "gateway/model_request.h"

#include <vector>

namespace troupe::gateway {

struct CompletionRequest {
  std::vector<ModelRequest> prompts;  // at least one; equal but for the prompt
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  std::size_t choices() const { return prompts.size() * prompts.front().choices; }
};

/// Errors (400) name the field and its limit.
Result<CompletionRequest> parse_completion_request(const JsonBody& body, const Limits& limits);

/// Appends the ids of an array of token ids; false, with the fault kept under `name`, where it holds anything else.
bool parse_token_ids(JsonFields& fields, std::string_view name, const nlohmann::json& array, std::vector<TokenId>& out);

}  // namespace troupe::gateway
