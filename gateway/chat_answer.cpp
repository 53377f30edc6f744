// ChatAnswer: see chat_answer.h. Its memory is bounded by max_tokens, so credits go back at once.
#include "gateway/chat_answer.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"

#include <algorithm>

namespace troupe::gateway {

using nlohmann::json;

ChatAnswer::ChatAnswer(Service& service, Connection& connection, ChatRequest request)
    : service_(service),
      connection_(connection),
      request_(std::move(request)),
      id_(random_id("chatcmpl-")),
      choices_(request_.engine.choices),
      call_(service.live(), request_.engine, *this) {}

void ChatAnswer::delta(messages::TokenDelta::Reader message) {
  for (auto piece : message.getPieces()) {
    if (piece.getChoice() >= choices_.size()) continue;
    auto& choice = choices_[piece.getChoice()];
    auto text = text_of(piece.getText());
    gathered_ += text.size();
    switch (piece.getChannel()) {
      case messages::Channel::TEXT: choice.text += text; break;
      case messages::Channel::REASONING: choice.reasoning += text; break;
      case messages::Channel::TOOL_NAME: choice.calls.push_back({piece.getItem(), random_id("call_"), std::string(text), ""}); break;
      case messages::Channel::TOOL_ARGUMENTS:
        if (!choice.calls.empty()) choice.calls.back().arguments += text;
        break;
    }
    if (!piece.hasLogprobs() || !request_.engine.logprobs) continue;
    auto before = choice.logprobs.size();
    for (const auto& entry : logprob_entries(piece, *request_.engine.logprobs))
      choice.logprobs += (choice.logprobs.empty() ? "" : ",") + to_text(entry);
    gathered_ += choice.logprobs.size() - before;
  }
  if (gathered_ > service_.limits().answer) return give_up(answer_too_large(service_.limits()));
  call_.grant(1);
}

std::string ChatAnswer::choice_text(const Choice& choice, std::size_t index, std::string_view reason) const {
  json message = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (!choice.calls.empty()) {
    auto calls = json::array();
    for (const auto& call : choice.calls)
      calls.push_back({{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    message["tool_calls"] = std::move(calls);
    if (choice.text.empty()) message["content"] = nullptr;
  }
  std::string out = "{\"index\":" + std::to_string(index) + ",\"message\":" + to_text(message) + ",\"logprobs\":";
  out += request_.engine.logprobs ? "{\"content\":[" + choice.logprobs + "],\"refusal\":null}" : "null";
  return out + ",\"finish_reason\":" + to_text(reason) + "}";
}

void ChatAnswer::finished(messages::RequestFinished::Reader message) {
  call_.ended();
  if (auto error = failure_of(message)) return service_.answer_error(connection_, *error);
  std::string out = "{\"id\":\"" + id_ + "\",\"object\":\"chat.completion\",\"created\":" + std::to_string(unix_time()) +
                    ",\"model\":" + to_text(request_.engine.model) + ",\"system_fingerprint\":null,\"choices\":[";
  auto ends = message.getOutcome().getChoices();
  for (unsigned i = 0; i < ends.size() && i < choices_.size(); i++) {
    if (i > 0) out += ',';
    out += choice_text(choices_[i], i, finish_reason(ends[i].getReason()));
  }
  out += ']';
  if (request_.engine.prompt_logprobs) out += ",\"prompt_logprobs\":" + prompt_logprobs_text(message, *request_.engine.prompt_logprobs);
  connection_.respond(200, "application/json", out + ",\"usage\":" + to_text(chat_usage(message)) + "}");
}

void ChatAnswer::give_up(const Error& error) {
  call_.cancel_silently();
  service_.answer_error(connection_, error);
}

void ChatAnswer::cut_short() { give_up(cut_by_drain()); }

}  // namespace troupe::gateway
