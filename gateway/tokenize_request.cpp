// See tokenize_request.h.
#include "gateway/tokenize_request.h"

#include "gateway/chat_request.h"
#include "gateway/completion_request.h"

namespace troupe::gateway {
namespace {

/// A reader of one body with what all of these have in common.
struct Reading {
  explicit Reading(const JsonBody& body) : fields(body.value, "", error) {
    out.engine.endpoint = messages::Endpoint::TOKENIZE;
    out.engine.model = fields.text(fields::kModel);
  }
  Result<TokenizeRequest> result() {
    if (error) return *error;
    return std::move(out);
  }
  std::optional<Error> error;
  JsonFields fields;
  TokenizeRequest out;
};

std::string parse_text(JsonFields& fields, std::string_view name) {
  const auto* value = fields.find(name);
  if (value->is_string()) return value->get<std::string>();
  fields.fail(name, "must be a string");
  return {};
}

}  // namespace

Result<TokenizeRequest> parse_tokenize_request(const JsonBody& body, const Limits& limits) {
  Reading reading(body);
  auto& [error, fields, out] = reading;
  bool content = fields.find("content") != nullptr, prompt = fields.find("prompt") != nullptr,
       messages = fields.find("messages") != nullptr;
  if (content + prompt + messages != 1)
    fields.missing("content", "is needed, or prompt, or messages: one of the three");
  else if (messages)
    out.engine.items = parse_messages(fields, limits, error);
  else
    out.engine.prompt_text = parse_text(fields, content ? "content" : "prompt");
  // The two names have defaults of their own: who says `content` gets llama.cpp's, who says `prompt` vLLM's.
  bool llama = fields.boolean(fields::kAddSpecial), vllm = fields.boolean(fields::kAddSpecialTokens);
  bool named_vllm = fields.find(fields::kAddSpecialTokens.name) != nullptr;
  out.engine.add_special = llama || (vllm && (prompt || named_vllm));
  out.engine.parse_special = fields.boolean(fields::kParseSpecial);
  out.engine.generation_prompt = fields.boolean(fields::kAddGenerationPrompt);
  parse_tools(fields, body, out.engine);
  out.with_pieces = fields.boolean(fields::kWithPieces);
  out.with_strings = fields.boolean(fields::kReturnTokenStrs);
  out.engine.echo = out.with_pieces || out.with_strings;
  refuse_unsupported(fields);
  return reading.result();
}

Result<TokenizeRequest> parse_detokenize_request(const JsonBody& body, const Limits&) {
  Reading reading(body);
  auto& fields = reading.fields;
  const auto* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array())
    fields.missing("tokens", "must be an array of token ids");
  else
    parse_token_ids(fields, "tokens", *tokens, reading.out.engine.prompt_tokens.emplace());
  reading.out.engine.echo = true;
  return reading.result();
}

Result<TokenizeRequest> parse_template_request(const JsonBody& body, const Limits& limits) {
  Reading reading(body);
  reading.out.engine.items = parse_messages(reading.fields, limits, reading.error);
  reading.out.engine.generation_prompt = reading.fields.boolean(fields::kAddGenerationPrompt);
  reading.out.engine.echo = true;
  parse_tools(reading.fields, body, reading.out.engine);
  refuse_unsupported(reading.fields);
  return reading.result();
}

Result<TokenizeRequest> parse_count_request(const JsonBody& body, const Limits& limits) {
  auto chat = parse_chat_request(body, limits);
  if (!chat.ok()) return chat.error();
  TokenizeRequest out{std::move(chat->engine)};
  out.engine.endpoint = messages::Endpoint::TOKENIZE;
  return out;
}

}  // namespace troupe::gateway
