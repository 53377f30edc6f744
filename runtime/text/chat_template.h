// ChatTemplate: the model's own Jinja template, compiled once, rendered per request. Immutable; any thread.
// Every character of the result is known to come from the template or from the caller, so that control tokens in a user's
// text stay text.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/text/tokenizer.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::text {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text; an object reaches the template as a mapping, anything else as the text it is
};
struct ChatMessage {
  std::string role;
  std::string content;
  std::string name = {};                  // empty = none
  std::string tool_call_id = {};          // of a tool's result; empty = none
  std::vector<ToolCall> tool_calls = {};  // of an assistant
};

class ChatTemplate {
 public:
  /// `source` empty: ChatML. A template that cannot be compiled is an Error with line and reason.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string source, std::string bos_token, std::string eos_token);
  ~ChatTemplate();
  /// `tools_json`: the tools as a JSON array; empty = none. A template's raise_exception is ErrorClass::kInvalidRequest with its message
  /// and the roles of the messages. Bounded in steps, bytes and depth; the error says which.
  Result<std::vector<TextPiece>> render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                        const std::string& tools_json = {}) const;
  Hash128 id() const;

 private:
  class State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troupe::text
