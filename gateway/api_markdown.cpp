// docs/http-api.md. See openapi.h.
#include "gateway/api_schemas.h"
#include "gateway/openapi.h"

#include <algorithm>

namespace troupe::gateway {
namespace {

constexpr std::string_view kHead = R"(# HTTP API

Made by `troupe api` from the tables that the server itself uses ([routes.cpp](../gateway/routes.cpp),
[request_fields.h](../gateway/request_fields.h)); a test compares the two. A running server describes itself at `/openapi.json` (OpenAPI 3.1).

```
curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' -d '{"prompt": "The sky is", "max_tokens": 8}'
```

## What differs from OpenAI

- Equal requests give equal answers: with `temperature` 0 bit for bit, else with the same `seed`, whatever the load and the cache.
- Prompts are never shortened. What does not fit into the context with its `max_tokens` is a 400 with both counts.
- Unknown fields are ignored. Known ones that would change the answer and are not supported (`response_format` other than text, forced
  tool calls, `suffix`, `best_of` other than `n`, grammars and others of vLLM and llama.cpp) are a 400 that names the field.
- Control tokens in a caller's text, such as `<|im_end|>`, are plain text. `parse_special` of `/v1/completions` and `/tokenize` reads them.
- `logprobs` of chat: `bytes` of all tokens together are the text; a control token has `bytes: null`; a token whose bytes are no whole
  characters is called `bytes:\xf0\x9f`. Log-probabilities are natural, after penalties and bias, before temperature.
- `logprobs` of completions: `text_offset` counts characters of the choice's text, the echoed prompt included; each entry of
  `top_logprobs` holds the token itself too. With `echo` the prompt's tokens come first, the very first with null.
- A stop string that begins inside a token cuts the text inside it; that token is not among the log-probabilities.
- `prompt_logprobs` (not in a stream): `[null, {"<token id>": {"logprob", "rank", "decoded_token"}}, ...]`, in a chat answer beside
  `choices`, in a completion in the first choice of each prompt. The token itself is always there; its `rank` is null where it is not among
  the best that were computed.
- `usage.prompt_tokens_details` (of responses: `input_tokens_details`) has `cached_tokens`, which counts all tiers, and a `cache_report`: tokens
  by tier, those `computed`, `load_ms` that were spent on waiting for a tier below the device, and the reason of a miss.
- `deadline_ms`, `priority`, `cache_salt`, `ignore_eos`, `stop_token_ids`, `min_p`, `top_k` and `repetition_penalty` are taken by all endpoints
  that generate.
- `/tokenize` takes llama.cpp's names (`content`, `add_special`, `with_pieces`) and vLLM's (`prompt` or `messages`, `add_special_tokens`,
  `return_token_strs`), and answers `tokens`, `count` and `max_model_len`. `/detokenize` answers `content` and `prompt`, the same text.
- `/v1/cache/events` is a stream without end: `data: {"number", "type": "stored" | "removed" | "cleared", "tier", "key", "parent", "tokens"}`.
  `key` is a block of 32 tokens behind its `parent` (null: the first, or not known: found on a disk). It begins with a snapshot (`cleared`
  with tier null, then all there is) unless the client names an event's id, in `after` or `Last-Event-ID`, that is among the last 65536.
  An `id` is `<life>-<number>`; numbers have no gaps in a life, and a server that was started anew, or whose cache was, has another one.
  Only the last event of a snapshot has an id. A `cleared` of one tier forgets that tier. At most 8 clients follow; who reads slowly is late.
- `/v1/system_prompts` names system prompts whose prefixes are kept in the cache ([docs](system-prompts.md)). Requests do not name them:
  clients send their own system message, and one that equals such a prompt hits.
- Errors are `{"error": {"message", "type", "param", "code"}}`. 429 and 503 carry Retry-After. In a stream an error is one event, and then
  `[DONE]`.

)";

std::string number_text(const nlohmann::json& value) { return value.dump(); }

std::string type_text(const nlohmann::json& schema) {
  if (schema.contains("enum")) {
    std::string out;
    for (const auto& value : schema["enum"]) out += (out.empty() ? "`" : ", `") + value.dump() + "`";
    return out;
  }
  if (schema.contains("anyOf")) {
    std::string out;
    for (const auto& choice : schema["anyOf"]) {
      auto text = type_text(choice);
      if (out.find(text) == out.npos) out += (out.empty() ? "" : " or ") + text;
    }
    return out;
  }
  auto type = schema.value("type", "");
  if (type == "array") {
    auto items = schema.contains("items") ? " of " + type_text(schema["items"]) : std::string();
    auto most = schema.contains("maxItems") ? ", at most " + number_text(schema["maxItems"]) : std::string();
    return "array" + items + most;
  }
  if (schema.contains("minimum")) return type + ", " + number_text(schema["minimum"]) + " to " + number_text(schema["maximum"]);
  if (schema.contains("maxLength")) return type + ", at most " + number_text(schema["maxLength"]) + " bytes";
  return type.empty() ? "any" : type;
}

/// Text in a cell of a table, where a bar would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string_view guard_text(Guard guard) {
  switch (guard) {
    case Guard::kOpen: return "";
    case Guard::kMetrics: return "yes, unless `--metrics-open`";
    case Guard::kKey: return "yes";
    case Guard::kAdmin: return "admin key";
  }
  return "";
}

std::string fields_table(const RequestSchema& request) {
  std::string out = "| field | value | default | |\n|---|---|---|---|\n";
  for (const auto& field : request.fields) {
    auto schema = schema_of(field, Limits{});
    auto lists = [&](const std::vector<std::string_view>& names) {
      return std::find(names.begin(), names.end(), name_of(field)) != names.end();
    };
    auto fallback = schema.contains("default") ? "`" + schema["default"].dump() + "`" : std::string();
    if (lists(request.required)) fallback = "needed";
    if (lists(request.one_needed)) fallback = "one of them is needed";
    out += "| `" + std::string(name_of(field)) + "` | " + type_text(schema) + " | " + fallback + " | " + cell(help_of(field)) + " |\n";
  }
  return out;
}

}  // namespace

std::string api_markdown() {
  std::string out(kHead);
  out += "## Endpoints\n\nWith keys set, those marked need one (`Authorization: Bearer KEY`).\n\n| | key | |\n|---|---|---|\n";
  for (const auto& route : route_table())
    out += "| `" + std::string(route.method) + " " + openapi_path(route) + "` | " + std::string(guard_text(route.guard)) + " | " +
           std::string(route.summary) + (route.streams ? "; as a stream too" : "") + " |\n";
  for (const auto& route : route_table())
    if (!route.query.empty())
      out += "\n## Query of `" + std::string(route.method) + " " + openapi_path(route) + "`\n\n" +
             fields_table({"", {}, {route.query.begin(), route.query.end()}});
  for (const auto& request : request_schemas()) {
    std::string users;
    for (const auto& route : route_table())
      if (route.request == request.name) users += (users.empty() ? "`" : ", `") + openapi_path(route) + "`";
    out += "\n## Body of " + users + "\n\n" + fields_table(request);
  }
  return out;
}

}  // namespace troupe::gateway
