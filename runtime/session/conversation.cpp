#include "runtime/session/conversation.h"

#include "messages/error_reasons.h"

#include <nlohmann/json.hpp>

namespace troupe::session {
namespace {
using nlohmann::json;

Error corrupted(std::string detail) {
  return make_error(ErrorClass::kCorrupted, ErrorReason::kUnclassified, "the stored response cannot be read", "previous_response_id",
                    std::move(detail));
}
}  // namespace

std::string to_record(const Conversation& conversation) {
  json items = json::array();
  for (const auto& item : conversation.items) {
    json entry{{"role", item.role}, {"text", item.text}};
    if (!item.name.empty()) entry["name"] = item.name;
    if (!item.call_id.empty()) entry["call_id"] = item.call_id;
    if (!item.arguments.empty()) entry["arguments"] = item.arguments;
    items.push_back(std::move(entry));
  }
  json record{{"version", 1}, {"instructions", conversation.instructions}, {"items", std::move(items)}, {"output", conversation.output}};
  if (!conversation.tools_json.empty()) record["tools"] = conversation.tools_json;
  if (conversation.created_at != 0) record["created_at"] = conversation.created_at;
  if (!conversation.finish.empty()) record["finish"] = conversation.finish;
  return record.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Conversation> from_record(std::string_view record) {
  const json parsed = json::parse(record, nullptr, false);
  if (parsed.is_discarded() || !parsed.is_object()) return corrupted("record is no object");
  try {
    if (parsed.at("version") != 1) return corrupted("record is not version 1");
    Conversation conversation;
    conversation.instructions = parsed.at("instructions").get<std::string>();
    conversation.output = parsed.at("output").get<std::string>();
    conversation.tools_json = parsed.value("tools", "");
    conversation.created_at = parsed.value("created_at", std::int64_t{0});
    conversation.finish = parsed.value("finish", "");
    for (const auto& entry : parsed.at("items"))
      conversation.items.push_back({entry.at("role").get<std::string>(), entry.at("text").get<std::string>(), entry.value("name", ""),
                                    entry.value("call_id", ""), entry.value("arguments", "")});
    return conversation;
  } catch (const json::exception& error) {
    return corrupted(error.what());
  }
}

Conversation continue_conversation(const Conversation& parent, const std::vector<InputItem>& items, std::string instructions,
                                   std::string tools_json) {
  Conversation next;
  next.tools_json = std::move(tools_json);
  next.instructions = std::move(instructions);
  next.items = parent.items;
  next.items.push_back({.role = "assistant", .text = parent.output, .name = {}, .call_id = {}, .arguments = {}});
  next.items.insert(next.items.end(), items.begin(), items.end());
  return next;
}

namespace {

bool is_call(const InputItem& item) { return item.role == "assistant" && !item.call_id.empty(); }

/// Calls of one turn belong to one message: a call goes to the assistant's message before it, unless it brings a text of its own.
void add_call(std::vector<text::ChatMessage>& messages, const InputItem& item) {
  const bool joins = !messages.empty() && messages.back().role == "assistant" && item.text.empty();
  if (!joins) messages.push_back({.role = "assistant", .content = item.text});
  messages.back().tool_calls.push_back({item.call_id, item.name, item.arguments});
}

/// Templates that show the name of the function whose result a message is find it there, though clients send its id only.
std::string called_function(const std::vector<text::ChatMessage>& messages, const std::string& call_id) {
  for (auto message = messages.rbegin(); message != messages.rend(); ++message)
    for (const text::ToolCall& call : message->tool_calls)
      if (call.id == call_id) return call.name;
  return {};
}

}  // namespace

std::vector<text::ChatMessage> to_chat_messages(const Conversation& conversation) {
  std::vector<text::ChatMessage> messages;
  messages.reserve(conversation.items.size() + 1);
  if (!conversation.instructions.empty()) messages.push_back({.role = "system", .content = conversation.instructions});
  for (const auto& item : conversation.items) {
    if (is_call(item)) {
      add_call(messages, item);
      continue;
    }
    const bool result = item.role == "tool";
    messages.push_back({.role = item.role == "developer" ? "system" : item.role,
                        .content = item.text,
                        .name = result && item.name.empty() ? called_function(messages, item.call_id) : item.name,
                        .tool_call_id = result ? item.call_id : std::string()});
  }
  return messages;
}

}  // namespace troupe::session
