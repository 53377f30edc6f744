// See chat_request.h.
#include "gateway/chat_request.h"

#include <algorithm>
#include <array>

namespace troupe::gateway {
namespace {

constexpr MovedField kMoved[] = {
    {"input", "is for responses: send messages"},
    {"instructions", "is for responses: send a system message"},
    {"max_output_tokens", "is for responses: send max_completion_tokens"},
    {"previous_response_id", "is for responses: send all messages"},
};
constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

void parse_tool_calls(JsonFields& message, const std::string& text, std::vector<InputItem>& out, std::size_t max_calls) {
  const auto* calls = message.array("tool_calls", max_calls);
  if (calls == nullptr) return;
  for (std::size_t i = 0; i < calls->size(); i++) {
    const auto& call = (*calls)[i];
    auto where = "tool_calls[" + std::to_string(i) + "]";
    auto function = call.is_object() ? call.find("function") : call.end();
    bool valid = call.is_object() && call.contains("id") && call["id"].is_string() && function != call.end() && function->is_object() &&
                 function->contains("name") && (*function)["name"].is_string() && function->contains("arguments") &&
                 (*function)["arguments"].is_string();
    if (!valid) return message.fail(where, "must have an id and a function with a name and its arguments as strings");
    // Text beside calls goes with the first of them.
    out.push_back({"assistant", i == 0 ? text : std::string(), (*function)["name"].get<std::string>(), call["id"].get<std::string>(),
                   (*function)["arguments"].get<std::string>()});
  }
}

void parse_message(const nlohmann::json& value, std::size_t index, const Limits& limits, std::optional<Error>& error,
                   std::vector<InputItem>& out) {
  auto where = "messages[" + std::to_string(index) + "]";
  if (!value.is_object()) {
    JsonFields(value, where, error).fail("", "must be an object");
    return;
  }
  JsonFields message(value, where, error);
  InputItem item;
  item.role = message.text("role", fields::kNameBytes);
  if (std::find(kRoles.begin(), kRoles.end(), item.role) == kRoles.end())
    return message.fail("role", "must be one of system, developer, user, assistant, tool");
  item.text = parse_content(message, "content");
  item.name = message.text("name", fields::kNameBytes);
  bool has_calls = item.role == "assistant" && message.find("tool_calls") != nullptr;
  if (message.find("content") == nullptr && !has_calls) return message.missing("content", "is needed");
  if (has_calls) return parse_tool_calls(message, item.text, out, limits.items);
  if (item.role == "tool") {
    item.call_id = message.text("tool_call_id", fields::kNameBytes);
    if (item.call_id.empty()) return message.missing("tool_call_id", "is needed in a tool message");
  }
  out.push_back(std::move(item));
}

void parse_logprobs(JsonFields& fields, ModelRequest& out) {
  bool wanted = fields.boolean(fields::kLogprobs);
  auto top = fields.integer(fields::kTopLogprobs);
  if (top > 0 && !wanted) return fields.fail("top_logprobs", "needs logprobs to be true");
  if (wanted) out.logprobs = static_cast<std::uint8_t>(top);
}

std::uint32_t parse_max_tokens(JsonFields& fields) {
  auto newer = fields.integer(fields::kMaxCompletionTokens, kNone32);
  auto older = fields.integer(fields::kMaxTokens, kNone32);
  return static_cast<std::uint32_t>(std::min(newer, older));
}

}  // namespace

std::vector<InputItem> parse_messages(JsonFields& fields, const Limits& limits, std::optional<Error>& error) {
  std::vector<InputItem> items;
  const auto* messages = fields.array("messages", limits.items);
  if (messages == nullptr || messages->empty())
    fields.missing("messages", "must be an array of at least one message");
  else
    for (std::size_t i = 0; i < messages->size() && !error; i++) parse_message((*messages)[i], i, limits, error, items);
  return items;
}

void parse_stream(JsonFields& fields, std::optional<Error>& error, bool& stream, bool& include_usage) {
  stream = fields.boolean(fields::kStream);
  const auto* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!stream) return fields.fail("stream_options", "needs stream to be true");
  include_usage = JsonFields(*options, "stream_options", error).boolean("include_usage", false);
}

void parse_prompt_logprobs(JsonFields& fields, bool stream, ModelRequest& out) {
  if (fields.find(fields::kPromptLogprobs.name) == nullptr) return;
  out.prompt_logprobs = static_cast<std::uint8_t>(fields.integer(fields::kPromptLogprobs));
  if (stream) fields.unsupported(fields::kPromptLogprobs.name, "is not possible in a stream");
}

Result<ChatRequest> parse_chat_request(const JsonBody& body, const Limits& limits) {
  std::optional<Error> error;
  JsonFields fields(body.value, "", error);
  ChatRequest out;
  auto& engine = out.engine;
  engine.endpoint = messages::Endpoint::CHAT_COMPLETIONS;
  engine.items = parse_messages(fields, limits, error);
  parse_common(fields, limits, engine);
  engine.sampling = parse_sampling(fields, limits);
  parse_logprobs(fields, engine);
  engine.choices = static_cast<std::uint16_t>(fields.integer("n", 1, limits.choices, 1));
  engine.max_tokens = parse_max_tokens(fields);
  parse_tools(fields, body, engine);
  refuse_response_format(fields);
  refuse_unsupported(fields);
  refuse_moved(fields, kMoved);
  if (fields.boolean(fields::kEcho)) fields.unsupported("echo", "is for completions only");
  engine.generation_prompt = fields.boolean(fields::kAddGenerationPrompt);
  parse_stream(fields, error, out.stream, out.include_usage);
  parse_prompt_logprobs(fields, out.stream, engine);
  want_logprobs(engine);
  engine.stream = out.stream;
  if (error) return *error;
  return out;
}

}  // namespace troupe::gateway
