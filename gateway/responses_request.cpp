// See responses_request.h.
#include "gateway/responses_request.h"

namespace troupe::gateway {
namespace {

constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxInstructions = 1 << 20;
constexpr std::int64_t kMaxTopLogprobs = 20;
constexpr std::int64_t kMaxTokens = kNone32 - 1;

bool known_role(const std::string& role) { return role == "system" || role == "developer" || role == "user" || role == "assistant"; }

void parse_item(const nlohmann::json& value, std::size_t index, std::optional<Error>& error, std::vector<InputItem>& out) {
  JsonFields item(value, "input[" + std::to_string(index) + "]", error);
  if (!value.is_object()) return item.fail("", "must be an object");
  auto type = item.text("type", kMaxName);
  InputItem parsed;
  if (type.empty() || type == "message") {
    parsed.role = item.text("role", kMaxName);
    if (!known_role(parsed.role)) return item.fail("role", "must be one of system, developer, user, assistant");
    if (item.find("content") == nullptr) return item.missing("content", "is needed");
    parsed.text = parse_content(item, "content");
  } else if (type == "function_call") {
    parsed.role = "assistant";
    parsed.name = item.text("name", kMaxName);
    parsed.call_id = item.text("call_id", kMaxName);
    parsed.arguments = item.text("arguments", kMaxInstructions);
    if (parsed.name.empty() || parsed.call_id.empty()) return item.missing("", "needs a name and a call_id");
  } else if (type == "function_call_output") {
    parsed.role = "tool";
    parsed.call_id = item.text("call_id", kMaxName);
    if (parsed.call_id.empty()) return item.missing("call_id", "is needed");
    parsed.text = parse_content(item, "output");
  } else if (type == "reasoning") {
    return;  // a model's own reasoning is not part of its next prompt
  } else {
    return item.unsupported("type", "must be message, function_call, function_call_output or reasoning");
  }
  out.push_back(std::move(parsed));
}

void parse_input(JsonFields& fields, const Limits& limits, std::optional<Error>& error, ModelRequest& out) {
  const auto* input = fields.find("input");
  if (input != nullptr && input->is_string()) {
    out.items.push_back({"user", input->get<std::string>(), "", "", ""});
  } else if (input != nullptr) {
    input = fields.array("input", limits.items);
    for (std::size_t i = 0; input != nullptr && i < input->size() && !error; i++) parse_item((*input)[i], i, error, out.items);
  }
  if (out.items.empty() && out.previous_response_id.empty() && !error)
    fields.missing("input", "must be a string or an array of at least one item");
}

void parse_logprobs(JsonFields& fields, Sampling& sampling) {
  auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs, 0);
  bool wanted = top > 0;
  if (const auto* include = fields.array("include", 16))
    for (const auto& entry : *include) wanted = wanted || entry == "message.output_text.logprobs";
  if (wanted) sampling.top_logprobs = static_cast<std::uint8_t>(top);
}

void refuse_format(JsonFields& fields, std::optional<Error>& error) {
  const auto* text = fields.object("text");
  if (text == nullptr) return;
  const auto* format = JsonFields(*text, "text", error).object("format");
  if (format == nullptr) return;
  if (auto type = format->find("type"); type == format->end() || *type != "text")
    fields.unsupported("text.format.type", "must be \"text\": structured output is not supported yet");
}

nlohmann::json echo(const nlohmann::json& event, const ResponsesRequest& request) {
  auto given = [&](const char* name, nlohmann::json fallback) {
    auto found = event.find(name);
    return found == event.end() || found->is_null() ? fallback : *found;
  };
  return {
      {"instructions", given("instructions", nullptr)},
      {"max_output_tokens", given("max_output_tokens", nullptr)},
      {"metadata", given("metadata", nlohmann::json::object())},
      {"parallel_tool_calls", given("parallel_tool_calls", true)},
      {"previous_response_id", given("previous_response_id", nullptr)},
      {"prompt_cache_key", given("prompt_cache_key", nullptr)},
      {"store", request.store},
      {"temperature", request.engine.sampling.temperature},
      {"text", given("text", {{"format", {{"type", "text"}}}})},
      {"tool_choice", given("tool_choice", "auto")},
      {"tools", given("tools", nlohmann::json::array())},
      {"top_p", request.engine.sampling.top_p},
      {"truncation", "disabled"},
      {"user", given("user", nullptr)},
  };
}

}  // namespace

std::string lane_of(const nlohmann::json& event) {
  auto lane = event.find("stream_id");
  return lane != event.end() && lane->is_string() && lane->get_ref<const std::string&>().size() <= kMaxName ? lane->get<std::string>() : "";
}

Result<ResponsesRequest> parse_responses_request(const nlohmann::json& event, const Limits& limits) {
  std::optional<Error> error;
  JsonFields fields(event, "", error);
  ResponsesRequest out;
  auto& engine = out.engine;
  engine.endpoint = messages::Endpoint::RESPONSES;
  engine.lane = fields.text("stream_id", kMaxName);
  engine.previous_response_id = fields.text("previous_response_id", kMaxName);
  engine.instructions = fields.text("instructions", kMaxInstructions);
  parse_input(fields, limits, error, engine);
  parse_common(fields, limits, engine);
  engine.sampling = parse_sampling(fields, limits);
  parse_logprobs(fields, engine.sampling);
  parse_tools(fields, engine);
  refuse_format(fields, error);
  out.store = fields.boolean("store", true);
  out.generate = fields.boolean("generate", true);
  engine.max_tokens = static_cast<std::uint32_t>(fields.integer("max_output_tokens", 1, kMaxTokens, kNone32));
  if (!out.generate) engine.max_tokens = 0;
  engine.retention = out.store ? messages::Retention::MEMORY : messages::Retention::CONNECTION;
  engine.stream = true;
  if (error) return *error;
  out.echoed = echo(event, out);
  return out;
}

}  // namespace troupe::gateway
