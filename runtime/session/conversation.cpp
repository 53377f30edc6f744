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
  const json record{
      {"version", 1}, {"instructions", conversation.instructions}, {"items", std::move(items)}, {"output", conversation.output}};
  return record.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Conversation> from_record(std::string_view record) {
  const json parsed = json::parse(record, nullptr, false);
  if (parsed.is_discarded() || !parsed.is_object() || parsed.value("version", 0) != 1) return corrupted("record is not version 1");
  try {
    Conversation conversation;
    conversation.instructions = parsed.at("instructions").get<std::string>();
    conversation.output = parsed.at("output").get<std::string>();
    for (const auto& entry : parsed.at("items"))
      conversation.items.push_back({entry.at("role").get<std::string>(), entry.at("text").get<std::string>(), entry.value("name", ""),
                                    entry.value("call_id", ""), entry.value("arguments", "")});
    return conversation;
  } catch (const json::exception& error) {
    return corrupted(error.what());
  }
}

Conversation continue_conversation(const Conversation& parent, const std::vector<InputItem>& items, std::string instructions) {
  Conversation next;
  next.instructions = std::move(instructions);
  next.items = parent.items;
  next.items.push_back({.role = "assistant", .text = parent.output, .name = {}, .call_id = {}, .arguments = {}});
  next.items.insert(next.items.end(), items.begin(), items.end());
  return next;
}

std::vector<text::ChatMessage> to_chat_messages(const Conversation& conversation) {
  std::vector<text::ChatMessage> messages;
  messages.reserve(conversation.items.size() + 1);
  if (!conversation.instructions.empty()) messages.push_back({"system", conversation.instructions, {}});
  for (const auto& item : conversation.items) messages.push_back({item.role == "developer" ? "system" : item.role, item.text, item.name});
  return messages;
}

}  // namespace troupe::session
