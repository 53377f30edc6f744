// The answers of the API as JSON schemas. See api_schemas.h.
#include "gateway/api_schemas.h"

namespace troupe::gateway {

nlohmann::json response_schemas() {
  static constexpr const char* kText = R"json({
"Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object", "required": ["message", "type", "param", "code"],
  "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "param": {"type": ["string", "null"]}, "code": {"type": "string"}}}}},
"Status": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}},
"Config": {"type": "object", "required": ["object", "options"], "properties": {"object": {"const": "config"}, "options": {"type": "object",
  "additionalProperties": {"type": "object", "required": ["value", "source"], "properties": {"value": {}, "default": {},
    "source": {"enum": ["default", "file", "environment", "command line"]}}}}}},
"Version": {"type": "object", "required": ["version"], "properties": {"version": {"type": "string"}}},
"OpenApi": {"type": "object", "required": ["openapi", "paths"], "properties": {"openapi": {"type": "string"}, "paths": {"type": "object"}}},
"Model": {"type": "object", "required": ["id", "object", "created", "owned_by"], "properties": {"id": {"type": "string"},
  "object": {"const": "model"}, "created": {"type": "integer"}, "owned_by": {"type": "string"}, "max_model_len": {"type": "integer"}}},
"ModelList": {"type": "object", "required": ["object", "data"], "properties": {"object": {"const": "list"},
  "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
"Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"], "properties": {
  "prompt_tokens": {"type": "integer", "minimum": 0}, "completion_tokens": {"type": "integer", "minimum": 0},
  "total_tokens": {"type": "integer", "minimum": 0},
  "prompt_tokens_details": {"type": "object", "required": ["cached_tokens"], "properties": {"cached_tokens": {"type": "integer", "minimum": 0}}},
  "completion_tokens_details": {"type": "object"}}},
"TokenLogprob": {"type": "object", "required": ["token", "logprob", "bytes"], "properties": {"token": {"type": "string"},
  "logprob": {"type": "number", "maximum": 0}, "bytes": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0, "maximum": 255}},
  "top_logprobs": {"type": "array", "maxItems": 20, "items": {"$ref": "#/components/schemas/TokenLogprob"}}}},
"PromptLogprobs": {"type": ["array", "null"], "items": {"type": ["object", "null"], "additionalProperties": {"type": "object",
  "required": ["logprob", "rank", "decoded_token"], "properties": {"logprob": {"type": "number", "maximum": 0},
  "rank": {"type": ["integer", "null"], "minimum": 1}, "decoded_token": {"type": "string"}}}}},
"ChatCompletion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
  "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"}, "model": {"type": "string"},
  "choices": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["index", "message", "logprobs", "finish_reason"],
    "properties": {"index": {"type": "integer"}, "message": {"type": "object", "required": ["role", "content"], "properties": {
      "role": {"const": "assistant"}, "content": {"type": ["string", "null"]}}},
      "logprobs": {"type": ["object", "null"], "properties": {"content": {"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}}}},
      "finish_reason": {"enum": ["stop", "length", "tool_calls"]}}}},
  "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"}, "usage": {"$ref": "#/components/schemas/Usage"}}},
"Completion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
  "id": {"type": "string"}, "object": {"const": "text_completion"}, "created": {"type": "integer"}, "model": {"type": "string"},
  "choices": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["index", "text", "logprobs", "finish_reason"],
    "properties": {"index": {"type": "integer"}, "text": {"type": "string"},
      "logprobs": {"type": ["object", "null"], "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"], "properties": {
        "tokens": {"type": "array", "items": {"type": "string"}}, "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
        "top_logprobs": {"type": "array", "items": {"type": ["object", "null"], "additionalProperties": {"type": "number"}}},
        "text_offset": {"type": "array", "items": {"type": "integer", "minimum": 0}}}},
      "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"}, "finish_reason": {"enum": ["stop", "length"]}}}},
  "usage": {"$ref": "#/components/schemas/Usage"}}},
"Tokens": {"type": "object", "required": ["tokens", "count", "max_model_len"], "properties": {
  "tokens": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["id", "piece"], "properties": {
    "id": {"type": "integer"}, "piece": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}}}]}},
  "count": {"type": "integer"}, "max_model_len": {"type": "integer"}, "token_strs": {"type": "array", "items": {"type": "string"}}}},
"DetokenizedText": {"type": "object", "required": ["content", "prompt"], "properties": {"content": {"type": "string"}, "prompt": {"type": "string"}}},
"RenderedPrompt": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}},
"InputTokens": {"type": "object", "required": ["object", "input_tokens"], "properties": {"object": {"type": "string"}, "input_tokens": {"type": "integer", "minimum": 0}}},
"Response": {"type": "object", "required": ["id", "object", "status", "output"], "properties": {"id": {"type": "string"},
  "object": {"const": "response"}, "status": {"type": "string"}, "output": {"type": "array", "items": {"type": "object"}}, "usage": {"type": ["object", "null"]}}},
"DeletedResponse": {"type": "object", "required": ["id", "deleted", "responses"], "properties": {"id": {"type": "string"}, "deleted": {"type": "boolean"},
  "responses": {"type": "integer", "minimum": 1}}},
"ResponseList": {"type": "object", "required": ["object", "data", "has_more"], "properties": {"object": {"const": "list"},
  "first_id": {"type": ["string", "null"]}, "last_id": {"type": ["string", "null"]}, "has_more": {"type": "boolean"},
  "data": {"type": "array", "items": {"type": "object",
    "required": ["id", "object", "previous_response_id", "path_tokens", "own_tokens", "ttl_seconds_left", "pin_seconds_left", "stored"],
    "properties": {"id": {"type": "string"}, "object": {"const": "response.node"}, "previous_response_id": {"type": ["string", "null"]},
      "path_tokens": {"type": "integer", "minimum": 0}, "own_tokens": {"type": "integer", "minimum": 0},
      "ttl_seconds_left": {"type": "integer", "minimum": 0}, "pin_seconds_left": {"type": "integer", "minimum": 0},
      "stored": {"enum": ["memory", "disk"]}}}}}},
"TierTokens": {"type": "object", "required": ["device", "host", "disk", "computed"], "properties": {"device": {"type": "integer", "minimum": 0},
  "host": {"type": "integer", "minimum": 0}, "disk": {"type": "integer", "minimum": 0}, "computed": {"type": "integer", "minimum": 0}}},
"ResponsePin": {"type": "object", "required": ["id", "object", "pinned", "ttl_seconds", "path_tokens", "memory"], "properties": {
  "id": {"type": "string"}, "object": {"const": "response.pin"}, "pinned": {"type": "boolean"}, "ttl_seconds": {"type": "integer"},
  "path_tokens": {"type": "integer", "minimum": 0}, "memory": {"$ref": "#/components/schemas/TierTokens"}}},
"ResponseMemory": {"type": "object", "required": ["id", "object", "path_tokens", "tokens", "bytes"], "properties": {"id": {"type": "string"},
  "object": {"const": "response.memory"}, "path_tokens": {"type": "integer", "minimum": 0},
  "tokens": {"$ref": "#/components/schemas/TierTokens"}, "bytes": {"type": "integer", "minimum": 0}}},
"SystemPrompt": {"type": "object", "required": ["name", "object", "tokens", "status", "memory", "error"], "properties": {"name": {"type": "string"},
  "object": {"const": "system_prompt"}, "tokens": {"type": ["integer", "null"], "minimum": 0}, "status": {"enum": ["waiting", "warm", "refused"]},
  "memory": {"$ref": "#/components/schemas/TierTokens"}, "error": {"type": ["string", "null"]}}},
"SystemPromptList": {"type": "object", "required": ["object", "data"], "properties": {"object": {"const": "list"},
  "data": {"type": "array", "items": {"$ref": "#/components/schemas/SystemPrompt"}}}},
"DeletedSystemPrompt": {"type": "object", "required": ["name", "object", "deleted"], "properties": {"name": {"type": "string"},
  "object": {"const": "system_prompt"}, "deleted": {"const": true}}},
"ResponseScores": {"type": "object", "required": ["id", "object", "model", "scores", "usage"], "properties": {"id": {"type": "string"},
  "object": {"const": "response.scores"}, "model": {"type": "string"}, "scores": {"type": "array", "minItems": 1, "items": {"type": "object",
    "required": ["index", "logprob", "tokens", "token_logprobs", "token_strs"], "properties": {"index": {"type": "integer"},
      "logprob": {"type": "number", "maximum": 0}, "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}},
      "token_logprobs": {"type": "array", "items": {"type": "number", "maximum": 0}},
      "token_strs": {"type": "array", "items": {"type": "string"}}}}}, "usage": {"type": "object"}}},
"InputItems": {"type": "object", "required": ["object", "data"], "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": {"type": "object"}}}}
})json";
  return nlohmann::json::parse(kText);
}

}  // namespace troupe::gateway
