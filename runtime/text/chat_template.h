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

struct ChatMessage {
  std::string role;
  std::string content;
  std::string name;  // empty = none
};

class ChatTemplate {
 public:
  /// `source` empty: ChatML. A template that cannot be compiled is an Error with line and reason.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string source, std::string bos_token, std::string eos_token);
  ~ChatTemplate();
  /// A template's raise_exception is ErrorClass::kInvalidRequest with its message. Bounded in steps and output.
  Result<std::vector<TextPiece>> render(std::span<const ChatMessage> messages, bool add_generation_prompt) const;
  Hash128 id() const;

 private:
  class State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troupe::text
