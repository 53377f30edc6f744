// ChatAnswer: see chat_answer.h. Its memory is bounded by max_tokens, so credits go back at once.
#include "gateway/chat_answer.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"
#include "messages/error_reasons.h"

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
    switch (piece.getChannel()) {
      case messages::Channel::TEXT: choice.text += text; break;
      case messages::Channel::REASONING: choice.reasoning += text; break;
      case messages::Channel::TOOL_NAME: choice.calls.push_back({piece.getItem(), random_id("call_"), std::string(text), ""}); break;
      case messages::Channel::TOOL_ARGUMENTS:
        if (!choice.calls.empty()) choice.calls.back().arguments += text;
        break;
    }
    if (piece.hasLogprobs())
      for (auto& entry : logprob_entries(piece)) choice.logprobs.push_back(std::move(entry));
  }
  call_.grant(1);
}

json ChatAnswer::choice_json(const Choice& choice, std::size_t index, std::string_view reason) const {
  json message = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (!choice.calls.empty()) {
    auto calls = json::array();
    for (const auto& call : choice.calls)
      calls.push_back({{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    message["tool_calls"] = std::move(calls);
    if (choice.text.empty()) message["content"] = nullptr;
  }
  json logprobs;
  if (request_.engine.sampling.wants_logprobs()) logprobs = {{"content", choice.logprobs}, {"refusal", nullptr}};
  return {{"index", index}, {"message", std::move(message)}, {"logprobs", std::move(logprobs)}, {"finish_reason", reason}};
}

void ChatAnswer::finished(messages::RequestFinished::Reader message) {
  call_.ended();
  if (auto error = failure_of(message)) return service_.answer_error(connection_, *error);
  auto ends = message.getOutcome().getChoices();
  auto choices = json::array();
  for (unsigned i = 0; i < ends.size() && i < choices_.size(); i++)
    choices.push_back(choice_json(choices_[i], i, finish_reason(ends[i].getReason())));
  connection_.respond(200, "application/json",
                      to_text({{"id", id_},
                               {"object", "chat.completion"},
                               {"created", unix_time()},
                               {"model", request_.engine.model},
                               {"choices", std::move(choices)},
                               {"usage", chat_usage(message)},
                               {"system_fingerprint", nullptr}}));
}

void ChatAnswer::cut_short() {
  call_.cancel_silently();
  service_.answer_error(connection_, make_error(ErrorClass::kUnavailable, ErrorReason::kDraining,
                                                "the server is shutting down and the request did not end in time", "", "", 1000));
}

}  // namespace troupe::gateway
