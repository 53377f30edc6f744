// See responses_request.h.
#include "gateway/responses_request.h"

#include <algorithm>

namespace troupe::gateway {
namespace {

constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxInstructions = 1 << 20;
constexpr std::int64_t kMaxTopLogprobs = 20;
constexpr std::int64_t kMaxTokens = kNone32 - 1;

bool known_role(const std::string& role) { return role == "system" || role == "developer" || role == "user" || role == "assistant"; }

/// As GET .../input_items shows it: what was sent, with a type, and content as a list of parts.
nlohmann::json shown_item(const nlohmann::json& value, const InputItem& parsed) {
  nlohmann::json item = value;
  if (!item.contains("type")) item["type"] = "message";
  item["status"] = "completed";
  auto content = item.find("content");
  if (content != item.end() && !content->is_array())
    *content = {{{"type", parsed.role == "assistant" ? "output_text" : "input_text"}, {"text", parsed.text}}};
  return item;
}

void parse_item(const nlohmann::json& value, std::size_t index, std::optional<Error>& error, ResponsesRequest& out) {
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
  out.input_items.push_back(shown_item(value, parsed));
  out.engine.items.push_back(std::move(parsed));
}

void parse_input(JsonFields& fields, const Limits& limits, std::optional<Error>& error, ResponsesRequest& out) {
  const auto* input = fields.find("input");
  out.input_items = nlohmann::json::array();
  if (input != nullptr && input->is_string()) {
    parse_item({{"role", "user"}, {"content", *input}}, 0, error, out);
  } else if (input != nullptr) {
    input = fields.array("input", limits.items);
    for (std::size_t i = 0; input != nullptr && i < input->size() && !error; i++) parse_item((*input)[i], i, error, out);
  }
  if (out.engine.items.empty() && out.engine.previous_response_id.empty() && !error)
    fields.missing("input", "must be a string or an array of at least one item");
}

constexpr std::string_view kIncludable[] = {
    "message.output_text.logprobs",  "reasoning.encrypted_content",           "file_search_call.results",
    "web_search_call.results",       "web_search_call.action.sources",        "code_interpreter_call.outputs",
    "message.input_image.image_url", "computer_call_output.output.image_url",
};

/// `include` asks for parts of items; those of items that never occur here (searches, images) are asked for in vain, not wrongly.
void parse_logprobs(JsonFields& fields, Sampling& sampling) {
  auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs, 0);
  bool wanted = top > 0;
  if (const auto* include = fields.array("include", std::size(kIncludable)))
    for (const auto& entry : *include) {
      bool known = entry.is_string() &&
                   std::find(std::begin(kIncludable), std::end(kIncludable), entry.get_ref<const std::string&>()) != std::end(kIncludable);
      if (!known) fields.fail("include", "must list what OpenAI can include; here \"message.output_text.logprobs\" has an effect");
      wanted = wanted || entry == kIncludable[0];
    }
  if (wanted) sampling.top_logprobs = static_cast<std::uint8_t>(top);
}

void parse_metadata(JsonFields& fields) {
  const auto* metadata = fields.object("metadata");
  if (metadata == nullptr) return;
  bool fits = metadata->size() <= 16;
  for (const auto& [key, value] : metadata->items())
    fits = fits && key.size() <= 64 * 4 && value.is_string() && value.get_ref<const std::string&>().size() <= 512 * 4;
  if (!fits) fields.fail("metadata", "must have at most 16 keys of 64 characters, with strings of 512 characters as values");
}

void refuse_text_options(JsonFields& fields, std::optional<Error>& error) {
  const auto* text = fields.object("text");
  if (text == nullptr) return;
  JsonFields options(*text, "text", error);
  auto verbosity = options.text("verbosity", kMaxName);
  if (!verbosity.empty() && verbosity != "medium")
    options.unsupported("verbosity", "must be \"medium\" or absent: others are not supported");
  const auto* format = options.object("format");
  if (format == nullptr) return;
  if (auto type = format->find("type"); type == format->end() || *type != "text")
    options.unsupported("format.type", "must be \"text\": structured output is not supported yet");
}

constexpr MovedField kMoved[] = {
    {"messages", "is for chat completions: send input"},
    {"max_tokens", "is for other endpoints: send max_output_tokens"},
    {"max_completion_tokens", "is for chat completions: send max_output_tokens"},
    {"response_format", "is for chat completions: send text.format"},
    {"logprobs", "is for other endpoints: send include and top_logprobs"},
    {"prompt_logprobs", "is for other endpoints"},
    {"echo", "is for completions only"},
};

/// Known fields whose meaning would get lost if they were ignored.
void refuse_unsupported(JsonFields& fields, std::optional<Error>& error) {
  refuse_moved(fields, kMoved);
  if (const auto* choices = fields.find("n"); choices != nullptr && *choices != 1)
    fields.unsupported("n", "must be 1 or absent: a response is one answer");
  gateway::refuse_unsupported(fields);
  if (fields.boolean("background", false))
    fields.unsupported("background", "must be false: send a stored stream instead, it goes on and can be resumed when its reader goes");
  auto truncation = fields.text("truncation", kMaxName);
  if (!truncation.empty() && truncation != "disabled")
    fields.unsupported("truncation", "must be \"disabled\": input that does not fit is refused, never shortened");
  for (const char* name : {"conversation", "prompt", "context_management", "moderation"})
    if (fields.find(name) != nullptr) fields.unsupported(name, "is not supported");
  if (const auto* reasoning = fields.object("reasoning")) {
    JsonFields options(*reasoning, "reasoning", error);
    for (const auto& [name, value] : reasoning->items())
      if (!value.is_null() && !(name == "effort" && value == "none"))
        options.unsupported(name, "is not supported: the model's own way of reasoning applies");
  }
  refuse_text_options(fields, error);
}

void parse_envelope(JsonFields& fields, std::optional<Error>& error, ResponsesTransport transport, ResponsesRequest& out) {
  out.generate = fields.boolean("generate", true);
  if (const auto* cache = fields.object("prompt_cache_options"))
    if (JsonFields(*cache, "prompt_cache_options", error).boolean("prewarm", false)) out.generate = false;
  out.stream = fields.boolean("stream", false);
  if (const auto* options = fields.object("stream_options"))
    JsonFields(*options, "stream_options", error).boolean("include_obfuscation", false);  // none is ever included
  if (transport == ResponsesTransport::kWebSocket)
    out.stream = true;
  else if (fields.find("stream_id") != nullptr)
    fields.unsupported("stream_id", "is for WebSockets: send several requests instead");
}

nlohmann::json echo(const nlohmann::json& event, const ResponsesRequest& request) {
  auto given = [&](const char* name, nlohmann::json fallback) {
    auto found = event.find(name);
    return found == event.end() || found->is_null() ? fallback : *found;
  };
  // What is repeated has a bound, or was checked: all of it is in several events.
  auto short_text = [&](const char* name) {
    auto found = event.find(name);
    const bool fits = found != event.end() && found->is_string() && found->get_ref<const std::string&>().size() <= kMaxName;
    return fits ? *found : nlohmann::json();
  };
  nlohmann::json text = {{"format", {{"type", "text"}}}};
  if (auto asked = event.find("text"); asked != event.end() && asked->is_object() && asked->contains("verbosity"))
    text["verbosity"] = (*asked)["verbosity"];
  auto parallel = given("parallel_tool_calls", true), most_calls = given("max_tool_calls", nullptr);
  return {
      {"background", false},
      {"instructions", given("instructions", nullptr)},
      {"max_output_tokens", given("max_output_tokens", nullptr)},
      {"max_tool_calls", most_calls.is_number() ? most_calls : nlohmann::json()},
      {"metadata", given("metadata", nlohmann::json::object())},
      {"parallel_tool_calls", parallel.is_boolean() ? parallel : nlohmann::json(true)},
      {"previous_response_id", given("previous_response_id", nullptr)},
      {"prompt_cache_key", given("prompt_cache_key", nullptr)},
      {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
      {"safety_identifier", short_text("safety_identifier")},
      {"service_tier", "default"},
      {"store", request.store},
      {"temperature", request.engine.sampling.temperature},
      {"text", std::move(text)},
      {"tool_choice", given("tool_choice", "auto")},
      {"tools", given("tools", nlohmann::json::array())},
      {"top_logprobs", request.engine.sampling.wants_logprobs() ? request.engine.sampling.top_logprobs : 0},
      {"top_p", request.engine.sampling.top_p},
      {"truncation", "disabled"},
      {"user", short_text("user")},
  };
}

}  // namespace

std::string lane_of(const nlohmann::json& event) {
  auto lane = event.find("stream_id");
  return lane != event.end() && lane->is_string() && lane->get_ref<const std::string&>().size() <= kMaxName ? lane->get<std::string>() : "";
}

Result<ResponsesRequest> parse_responses_request(const JsonBody& event, const Limits& limits, ResponsesTransport transport) {
  std::optional<Error> error;
  JsonFields fields(event.value, "", error);
  ResponsesRequest out;
  auto& engine = out.engine;
  engine.endpoint = messages::Endpoint::RESPONSES;
  parse_envelope(fields, error, transport, out);
  if (transport == ResponsesTransport::kWebSocket) engine.lane = fields.text("stream_id", kMaxName);
  engine.previous_response_id = fields.text("previous_response_id", kMaxName);
  engine.instructions = fields.text("instructions", kMaxInstructions);
  parse_input(fields, limits, error, out);
  parse_common(fields, limits, engine);
  engine.sampling = parse_sampling(fields, limits);
  parse_logprobs(fields, engine.sampling);
  parse_tools(fields, event, engine);
  parse_metadata(fields);
  refuse_unsupported(fields, error);
  out.store = fields.boolean("store", true);
  engine.max_tokens = static_cast<std::uint32_t>(fields.integer("max_output_tokens", 1, kMaxTokens, kNone32));
  if (!out.generate) engine.max_tokens = 0;
  engine.retention = out.store ? messages::Retention::MEMORY : messages::Retention::CONNECTION;
  engine.stream = out.stream;
  if (error) return *error;
  out.continuable = out.store || transport == ResponsesTransport::kWebSocket;  // what goes with its connection is of no use over HTTP
  out.echoed = echo(event.value, out);
  return out;
}

Result<ModelRequest> parse_input_tokens_request(const JsonBody& body, const Limits& limits) {
  std::optional<Error> error;
  JsonFields fields(body.value, "", error);
  ResponsesRequest out;
  auto& engine = out.engine;
  engine.endpoint = messages::Endpoint::TOKENIZE;
  engine.model = fields.text("model", kMaxName);
  engine.previous_response_id = fields.text("previous_response_id", kMaxName);
  engine.instructions = fields.text("instructions", kMaxInstructions);
  parse_input(fields, limits, error, out);
  parse_tools(fields, body, engine);
  refuse_unsupported(fields, error);
  if (error) return *error;
  return std::move(engine);
}

}  // namespace troupe::gateway
