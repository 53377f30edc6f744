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
constexpr const char* kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Value caller_text(const std::string& bytes) { return Value(Text(bytes, Origin::kCaller)); }

Value message_value(const ChatMessage& message) {
  Dict dict;
  dict.set(Text("role", Origin::kTemplate), caller_text(message.role));
  dict.set(Text("content", Origin::kTemplate), caller_text(message.content));
  if (!message.name.empty()) dict.set(Text("name", Origin::kTemplate), caller_text(message.name));
  return Value(std::move(dict));
}

std::string at_line(std::size_t line) { return " (chat template, line " + std::to_string(line) + ")"; }

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

Result<std::vector<TextPiece>> ChatTemplate::render(std::span<const ChatMessage> messages, bool add_generation_prompt) const {
  jinja::List list;
  for (const ChatMessage& message : messages) list.push_back(message_value(message));
  try {
    jinja::Interpreter interpreter{jinja::Limits{}};
    interpreter.define("messages", Value(std::move(list)));
    interpreter.define("add_generation_prompt", Value(add_generation_prompt));
    interpreter.define("bos_token", jinja::template_text(state_->bos_token));
    interpreter.define("eos_token", jinja::template_text(state_->eos_token));
    interpreter.define("tools", Value(jinja::None{}));
    interpreter.define("documents", Value(jinja::None{}));
    return interpreter.run(state_->body).pieces();
  } catch (const jinja::TemplateError& error) {
    const std::string prefix = error.raised ? "" : "the model's chat template cannot render these messages: ";
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kTemplate, prefix + error.what() + at_line(error.line), "messages");
  }
}

Hash128 ChatTemplate::id() const { return state_->id; }

}  // namespace troupe::text
