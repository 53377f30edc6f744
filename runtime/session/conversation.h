// Conversation: what a stored response remembers of the words behind its token ids, so that a later turn can be rendered again.
// Kept as JSON in the session store's opaque record. Pure values; any thread.
#pragma once
#include "messages/error.h"
#include "runtime/session/request.h"
#include "runtime/text/chat_template.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::session {

struct Conversation {
  std::string instructions;      // of this response only: they are not inherited, nor are the tools
  std::vector<InputItem> items;  // from the root of the tree on, this response's input included
  std::string output;            // text of the answer
  std::string tools_json = {};   // as the template got them; empty = none
  std::int64_t created_at = 0;   // of this response, seconds since 1970
  std::string finish = {};       // how its answer ended: stop, length, cancelled
  friend bool operator==(const Conversation&, const Conversation&) = default;
};

std::string to_record(const Conversation& conversation);
/// Error kCorrupted for anything that to_record did not write.
Result<Conversation> from_record(std::string_view record);

/// The conversation after the answer of `parent` and the items of the next turn.
Conversation continue_conversation(const Conversation& parent, const std::vector<InputItem>& items, std::string instructions,
                                   std::string tools_json = {});

/// The messages that a chat template renders: instructions first as a system message; `developer` is the template's `system`; tool calls
/// that follow each other are one message's.
std::vector<text::ChatMessage> to_chat_messages(const Conversation& conversation);

}  // namespace troupe::session
