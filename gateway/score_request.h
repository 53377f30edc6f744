// The body of POST /v1/responses/{id}/score, checked: texts or token ids whose log-probabilities behind a stored response are wanted. Each
// is a request of its own for the engine; the path that they share is computed once. Pure, any thread.
#pragma once
#include "gateway/model_request.h"

#include <vector>

namespace troupe::gateway {

struct ScoreRequest {
  std::vector<ModelRequest> continuations;  // at least one; equal but for the prompt
};

/// Errors (400) name the field and its limit. `previous_response_id` is the caller's to fill in.
Result<ScoreRequest> parse_score_request(const JsonBody& body, const Limits& limits);

}  // namespace troupe::gateway
