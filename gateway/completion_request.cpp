// See completion_request.h.
#include "gateway/completion_request.h"

#include "gateway/chat_request.h"

namespace troupe::gateway {
namespace {

constexpr std::string_view kPromptRule = "must be a string, an array of strings, an array of token ids, or an array of such arrays";

/// One prompt: its text, or its ids.
struct Prompt {
  std::optional<std::string> text;
  std::optional<std::vector<TokenId>> tokens;
};

Prompt parse_prompt(JsonFields& fields, const std::string& name, const nlohmann::json& value) {
  Prompt prompt;
  if (value.is_string()) {
    prompt.text = value.get<std::string>();
  } else if (value.is_array()) {
    parse_token_ids(fields, name, value, prompt.tokens.emplace());
  } else {
    fields.fail("prompt", kPromptRule);
  }
  return prompt;
}

std::vector<Prompt> parse_prompts(JsonFields& fields, const Limits& limits) {
  std::vector<Prompt> prompts;
  const auto* value = fields.find("prompt");
  if (value == nullptr) {
    fields.missing("prompt", kPromptRule);
    return prompts;
  }
  bool list = value->is_array() && !value->empty() && !value->front().is_number();
  if (!list) {
    if (value->is_array() && value->empty())
      fields.fail("prompt", "must not be empty");
    else
      prompts.push_back(parse_prompt(fields, "prompt", *value));
    return prompts;
  }
  if (value->size() > limits.choices) {
    fields.fail("prompt", "must be an array of at most " + std::to_string(limits.choices) + " prompts");
    return prompts;
  }
  for (std::size_t i = 0; i < value->size() && !fields.failed(); i++)
    prompts.push_back(parse_prompt(fields, "prompt[" + std::to_string(i) + "]", (*value)[i]));
  return prompts;
}

void parse_choices(JsonFields& fields, const Limits& limits, std::size_t prompts, ModelRequest& out) {
  out.choices = static_cast<std::uint16_t>(fields.integer("n", 1, limits.choices, 1));
  if (out.choices * prompts > limits.choices)
    fields.fail("n", "times the number of prompts must be at most " + std::to_string(limits.choices));
  if (fields.integer("best_of", 1, limits.choices, out.choices) != out.choices)
    fields.unsupported("best_of", "must be equal to n: choices are not drawn to be dropped");
}

}  // namespace

bool parse_token_ids(JsonFields& fields, std::string_view name, const nlohmann::json& array, std::vector<TokenId>& out) {
  out.reserve(array.size());
  for (const auto& id : array) {
    auto token = parse_token_id(id);
    if (!token) {
      fields.fail(name, "must hold token ids only");
      return false;
    }
    out.push_back(*token);
  }
  return true;
}

Result<CompletionRequest> parse_completion_request(const JsonBody& body, const Limits& limits) {
  std::optional<Error> error;
  JsonFields fields(body.value, "", error);
  CompletionRequest out;
  ModelRequest engine;
  engine.endpoint = messages::Endpoint::COMPLETIONS;
  auto prompts = parse_prompts(fields, limits);
  parse_common(fields, limits, engine);
  engine.sampling = parse_sampling(fields, limits);
  parse_choices(fields, limits, prompts.size(), engine);
  engine.max_tokens = static_cast<std::uint32_t>(fields.integer(fields::kCompletionTokens));
  engine.echo = fields.boolean(fields::kEcho);
  engine.parse_special = fields.boolean(fields::kParseSpecial);
  if (fields.find(fields::kCompletionLogprobs.name) != nullptr)
    engine.logprobs = static_cast<std::uint8_t>(fields.integer(fields::kCompletionLogprobs));
  refuse_response_format(fields);
  refuse_unsupported(fields);
  parse_stream(fields, error, out.stream, out.include_usage);
  parse_prompt_logprobs(fields, out.stream, engine);
  if (engine.echo && engine.logprobs) engine.score_from = 0;
  want_logprobs(engine);
  engine.stream = out.stream;
  if (error) return *error;
  for (auto& prompt : prompts) {
    auto& request = out.prompts.emplace_back(engine);
    request.prompt_text = std::move(prompt.text);
    request.prompt_tokens = std::move(prompt.tokens);
  }
  return out;
}

}  // namespace troupe::gateway
