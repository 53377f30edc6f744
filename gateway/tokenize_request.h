// Bodies of /tokenize, /detokenize, /apply-template and /v1/chat/completions/input_tokens, checked. Names of llama.cpp and of vLLM are both
// taken. Control tokens in a text are plain text unless parse_special is asked for. Pure, any thread.
#pragma once
#include "gateway/model_request.h"

namespace troupe::gateway {

struct TokenizeRequest {
  ModelRequest engine;
  bool with_pieces = false;   // llama.cpp: tokens as {id, piece}
  bool with_strings = false;  // vLLM: token_strs
};

/// content (llama.cpp), prompt or messages (vLLM): exactly one of them. Errors (400) name the field and its limit.
Result<TokenizeRequest> parse_tokenize_request(const JsonBody& body, const Limits& limits);
/// tokens.
Result<TokenizeRequest> parse_detokenize_request(const JsonBody& body, const Limits& limits);
/// messages, add_generation_prompt.
Result<TokenizeRequest> parse_template_request(const JsonBody& body, const Limits& limits);
/// A chat request; only its prompt counts.
Result<TokenizeRequest> parse_count_request(const JsonBody& body, const Limits& limits);

}  // namespace troupe::gateway
