// Any bytes as the body of every JSON endpoint: an error whose text is valid UTF-8 without a line break and names what it is about, or a
// request whose message can be built and whose values keep their limits.
#include "gateway/chat_request.h"
#include "gateway/completion_request.h"
#include "gateway/error_body.h"
#include "gateway/responses_request.h"
#include "gateway/tokenize_request.h"
#include "runtime/text/utf8.h"
#include "tests/fuzz/fuzz_target.h"

#include <cstdlib>

using namespace troupe;
using namespace troupe::gateway;

namespace {

void check_text(std::string_view text) {
  while (!text.empty()) {
    const auto step = text::utf8_step(text);
    if (step.kind != text::Utf8::kValid || text[0] == '\n') std::abort();
    text.remove_prefix(step.length);
  }
}

void check_error(const Error& error) {
  if (error.client_text.empty() || error.client_text.size() > 2000) std::abort();
  check_text(error.client_text);
  check_text(error.parameter);
}

void check_request(const ModelRequest& request) {
  const Limits limits;
  if (request.stops.size() > limits.stops || request.choices == 0 || request.choices > limits.choices) std::abort();
  if (!(request.sampling.temperature >= 0 && request.sampling.temperature <= 2)) std::abort();
  if (!(request.sampling.top_p >= 0 && request.sampling.top_p <= 1)) std::abort();
  const auto message = build_submit(RequestId{1}, request);
  if (message.bytes().size() == 0) std::abort();
}

const ModelRequest& engine_of(const ModelRequest& request) { return request; }
template <class Request>
const ModelRequest& engine_of(const Request& request) {
  return request.engine;
}

template <class Request>
void take(const Result<Request>& request) {
  if (!request) return check_error(request.error());
  check_request(engine_of(*request));
}
void take(const Result<CompletionRequest>& request) {
  if (!request) return check_error(request.error());
  if (request->prompts.empty()) std::abort();
  for (const ModelRequest& prompt : request->prompts) check_request(prompt);
}

}  // namespace

FUZZ_TARGET(json) {
  const Limits limits;
  const auto body = parse_json_object(std::string_view(reinterpret_cast<const char*>(data), size), limits.json_depth);
  if (!body) {
    check_error(body.error());
    return 0;
  }
  take(parse_chat_request(*body, limits));
  take(parse_completion_request(*body, limits));
  take(parse_responses_request(*body, limits, ResponsesTransport::kHttp));
  take(parse_responses_request(*body, limits, ResponsesTransport::kWebSocket));
  take(parse_input_tokens_request(*body, limits));
  take(parse_tokenize_request(*body, limits));
  take(parse_detokenize_request(*body, limits));
  take(parse_template_request(*body, limits));
  take(parse_count_request(*body, limits));
  check_text(lane_of(body->value).substr(0, 0));
  return 0;
}
