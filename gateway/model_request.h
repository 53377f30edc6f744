// ModelRequest: a checked request for the engine, whichever endpoint it came by, and its SubmitRequest message. A plain value.
// Parsing of the fields that all endpoints share is here too. Invariant: every value is within the ranges of request.capnp.
#pragma once
#include "gateway/json_fields.h"
#include "gateway/limits.h"
#include "messages/ids.h"
#include "messages/message.h"
#include "messages/request.capnp.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::gateway {

struct InputItem {
  std::string role;  // system, developer, user, assistant, tool
  std::string text;
  std::string name;
  std::string call_id;
  std::string arguments;
};

struct Sampling {
  double temperature = 1;
  double top_p = 1;
  double min_p = 0;
  std::uint32_t top_k = 0;  // 0 = off
  std::uint64_t seed = 0;
  bool seed_given = false;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::pair<TokenId, double>> biases;  // sorted by id
  std::uint8_t top_logprobs = 255;                 // 255 = none wanted
  bool wants_logprobs() const { return top_logprobs != 255; }
};

struct ModelRequest {
  messages::Endpoint endpoint = messages::Endpoint::CHAT_COMPLETIONS;
  std::string model;
  Hash128 owner;
  std::uint64_t connection = 0;
  std::string lane;
  std::string response_id;           // empty = the response is not kept
  std::string previous_response_id;  // empty = a new tree
  messages::Retention retention = messages::Retention::CONNECTION;
  std::string cache_salt;
  std::int32_t priority = 0;
  std::uint32_t deadline_ms = 0;
  std::vector<InputItem> items;            // the input, unless one of the next two is set
  std::optional<std::string> prompt_text;  // plain text, no template
  std::optional<std::vector<TokenId>> prompt_tokens;
  bool parse_special = false;       // prompt_text: control tokens are recognised in it
  bool add_special = true;          // prompt_text: begins with BOS where the model wants one
  bool generation_prompt = true;    // items: the template opens the answer
  bool score_continuation = false;  // prompt_text or prompt_tokens follow previous_response_id; their log-probabilities are wanted
  std::string instructions;
  std::string tools_json;
  std::string tool_choice_json;
  Sampling sampling;
  std::uint16_t choices = 1;
  std::uint32_t max_tokens = kNone32;
  std::vector<std::string> stops;
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  bool echo = false;                            // completions: the prompt comes first; tokenize: texts are wanted too
  std::optional<std::uint8_t> logprobs;         // alternatives beside each token of the answer
  std::optional<std::uint8_t> prompt_logprobs;  // the same of the prompt
  std::uint32_t score_from = kNone32;           // prompt position from which log-probabilities are computed
  bool stream = false;
  std::uint32_t credit = 0;
  std::vector<Hash128> key_domains;
};

/// A token id, or nothing for what is none; 7.0 is one, as for all integers.
std::optional<TokenId> parse_token_id(const nlohmann::json& value);
/// temperature, top_p, top_k, min_p, seed, penalties, logit_bias. Ranges: see the error texts.
Sampling parse_sampling(JsonFields& fields, const Limits& limits);
/// stop (string or array), stop_token_ids, ignore_eos, priority, deadline_ms, cache_salt / prompt_cache_key.
void parse_common(JsonFields& fields, const Limits& limits, ModelRequest& out);
/// tools and tool_choice as JSON text for the template; `fields` reads `body`. Models were trained on an order of a tool's keys, so the
/// text is the client's. Forced tool choices are refused: nothing enforces them.
void parse_tools(JsonFields& fields, const JsonBody& body, ModelRequest& out);
/// Content that is a string, an array of text parts, or null; anything else is a fault that names the part.
std::string parse_content(JsonFields& fields, std::string_view name);

/// response_format: only plain text.
void refuse_response_format(JsonFields& fields);
/// Fields of OpenAI, vLLM and llama.cpp that would change the answer and that nothing here does: refused unless they ask for nothing.
void refuse_unsupported(JsonFields& fields);
/// What other endpoints call otherwise, or have and this one has not: ignored, it would change the answer in silence.
struct MovedField {
  std::string_view name, rule;
};
void refuse_moved(JsonFields& fields, std::span<const MovedField> moved);
/// logprobs and prompt_logprobs as the engine takes them: one number of alternatives for both.
void want_logprobs(ModelRequest& out);

Message<messages::SubmitRequest> build_submit(RequestId id, const ModelRequest& request);

}  // namespace troupe::gateway
