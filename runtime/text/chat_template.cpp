#include "runtime/text/chat_template.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/template_error.h"

namespace troupe::text {
namespace {

using jinja::Dict;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

constexpr std::size_t kMaxSourceBytes = 1U << 20;
constexpr std::size_t kMaxJsonDepth = 48;  // of tools and arguments; what a template builds around them may nest as well
constexpr const char* kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Value caller_text(const std::string& bytes) { return Value(Text(bytes, Origin::kCaller)); }

Text key(const char* name) { return Text(name, Origin::kTemplate); }

/// In the shape of the chat completions API, which templates are written for.
Value tool_call_value(const ToolCall& call) {
  Value arguments = caller_text(call.arguments);
  try {
    Value parsed = jinja::from_json(call.arguments, kMaxJsonDepth);
    if (parsed.dict() != nullptr) arguments = std::move(parsed);
  } catch (const jinja::TemplateError&) {  // what a model wrote need not be JSON
  }
  Dict function, dict;
  function.set(key("name"), caller_text(call.name));
  function.set(key("arguments"), std::move(arguments));
  dict.set(key("id"), caller_text(call.id));
  dict.set(key("type"), jinja::template_text("function"));
  dict.set(key("function"), Value(std::move(function)));
  return Value(std::move(dict));
}

/// The same for a tool as the Responses API has it, without a level between. Models were trained on the order of that API's documentation.
Value tool_value(const Value& tool) {
  const Dict* flat = tool.dict();
  if (flat == nullptr || flat->find("function") != nullptr || flat->find("name") == nullptr) return tool;
  Dict function, dict;
  for (const char* name : {"name", "description", "parameters", "strict"})
    if (const Value* value = flat->find(name)) function.set(key(name), *value);
  for (const auto& [name, value] : flat->entries())
    if (name.bytes() != "type") function.set(name, value);
  dict.set(key("type"), jinja::template_text("function"));
  dict.set(key("function"), Value(std::move(function)));
  return Value(std::move(dict));
}

Value tools_value(const std::string& tools_json) {
  Value tools = jinja::from_json(tools_json, kMaxJsonDepth);
  if (tools.list() == nullptr) return tools;
  jinja::List list;
  for (const Value& tool : *tools.list()) list.push_back(tool_value(tool));
  return Value(std::move(list));
}

Value message_value(const ChatMessage& message) {
  Dict dict;
  dict.set(key("role"), caller_text(message.role));
  dict.set(key("content"), caller_text(message.content));
  if (!message.name.empty()) dict.set(key("name"), caller_text(message.name));
  if (!message.tool_call_id.empty()) dict.set(key("tool_call_id"), caller_text(message.tool_call_id));
  if (message.tool_calls.empty()) return Value(std::move(dict));
  jinja::List calls;
  for (const ToolCall& call : message.tool_calls) calls.push_back(tool_call_value(call));
  dict.set(key("tool_calls"), Value(std::move(calls)));
  return Value(std::move(dict));
}

std::string at_line(std::size_t line) { return "chat template, line " + std::to_string(line); }

/// "system, user": so that whoever reads a template's refusal sees which role it may be about.
std::string roles_of(std::span<const ChatMessage> messages) {
  constexpr std::size_t kShown = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(messages.size(), kShown); ++i) out += (i > 0 ? ", " : "") + messages[i].role;
  return messages.size() > kShown ? out + " ..." : out;
}

}  // namespace

class ChatTemplate::State {
 public:
  jinja::Body body;
  std::string bos_token, eos_token;
  Hash128 id;
};

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string source, std::string bos_token, std::string eos_token) {
  constexpr const char* kField = "tokenizer.chat_template";
  if (source.empty()) source = kChatMl;
  if (source.size() > kMaxSourceBytes)
    return make_error(ErrorClass::kCorrupted, ErrorReason::kTemplate,
                      std::string(kField) + ": longer than " + std::to_string(kMaxSourceBytes) + " bytes", kField);
  auto state = std::make_unique<State>();
  try {
    state->body = jinja::parse(source);
  } catch (const jinja::TemplateError& error) {
    return make_error(ErrorClass::kCorrupted, ErrorReason::kTemplate,
                      std::string(kField) + ": line " + std::to_string(error.line) + ": " + error.what(), kField);
  }
  state->id = base::Hasher().add(std::string_view("chat-template/1")).add(source).add(bos_token).add(eos_token).finish();
  state->bos_token = std::move(bos_token);
  state->eos_token = std::move(eos_token);
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(state)));
}

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::vector<TextPiece>> ChatTemplate::render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                                    const std::string& tools_json) const {
  Value tools(jinja::None{});
  try {
    if (!tools_json.empty()) tools = tools_value(tools_json);
  } catch (const jinja::TemplateError& error) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, std::string("tools: ") + error.what(), "tools");
  }
  jinja::List list;
  for (const ChatMessage& message : messages) list.push_back(message_value(message));
  try {
    jinja::Interpreter interpreter{jinja::Limits{}};
    interpreter.define("messages", Value(std::move(list)));
    interpreter.define("add_generation_prompt", Value(add_generation_prompt));
    interpreter.define("bos_token", jinja::template_text(state_->bos_token));
    interpreter.define("eos_token", jinja::template_text(state_->eos_token));
    interpreter.define("tools", tools);
    interpreter.define("documents", Value(jinja::None{}));
    return interpreter.run(state_->body).pieces();
  } catch (const jinja::TemplateError& error) {
    const std::string prefix = error.raised ? "" : "the model's chat template cannot render these messages: ";
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kTemplate,
                      prefix + error.what() + " (" + at_line(error.line) + "; roles of the messages: " + roles_of(messages) + ")",
                      "messages");
  }
}

Hash128 ChatTemplate::id() const { return state_->id; }

}  // namespace troupe::text
