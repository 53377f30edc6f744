// ChatStream: see chat_answer.h.
#include "gateway/answer_json.h"
#include "gateway/chat_answer.h"
#include "gateway/error_body.h"

#include <utility>

namespace troupe::gateway {
namespace {

std::string choice_text(std::size_t index, std::string_view delta, std::string_view logprobs, std::string_view reason) {
  return chunk_choice(index, "\"delta\":{" + std::string(delta) + "}", logprobs, reason);
}

}  // namespace

ChatStream::ChatStream(Service& service, Connection& connection, ChatRequest request)
    : request_(std::move(request)),
      chunks_(service, connection, "chatcmpl-", "chat.completion.chunk", request_.engine.model, request_.include_usage),
      choices_(request_.engine.choices),
      call_(service.live(), request_.engine, *this) {}

void ChatStream::begin_choice(std::size_t index) {
  if (choices_[index].begun) return;
  choices_[index].begun = true;
  chunks_.write(choice_text(index, "\"role\":\"assistant\",\"content\":\"\"", "", ""));
}

std::string ChatStream::tool_delta(Choice& choice, messages::DeltaPiece::Reader piece) {
  bool opens = piece.getChannel() == messages::Channel::TOOL_NAME;
  if (opens) choice.calls.push_back({piece.getItem(), random_id("call_"), "", ""});
  if (choice.calls.empty()) return {};
  std::string out = "\"tool_calls\":[{\"index\":" + std::to_string(choice.calls.size() - 1);
  auto text = text_of(piece.getText());
  if (opens)
    out += ",\"id\":\"" + choice.calls.back().id + "\",\"type\":\"function\",\"function\":{" + named_string("name", text) +
           ",\"arguments\":\"\"}";
  else
    out += ",\"function\":{" + named_string("arguments", text) + "}";
  return out + "}]";
}

void ChatStream::write_piece(messages::DeltaPiece::Reader piece) {
  std::size_t index = piece.getChoice();
  if (index >= choices_.size()) return;
  begin_choice(index);
  std::string delta;
  switch (piece.getChannel()) {
    case messages::Channel::TEXT: delta = named_string("content", text_of(piece.getText())); break;
    case messages::Channel::REASONING: delta = named_string("reasoning_content", text_of(piece.getText())); break;
    case messages::Channel::TOOL_NAME:
    case messages::Channel::TOOL_ARGUMENTS: delta = tool_delta(choices_[index], piece); break;
  }
  std::string logprobs;
  if (piece.hasLogprobs() && request_.engine.logprobs)
    logprobs = to_text({{"content", logprob_entries(piece, *request_.engine.logprobs)}, {"refusal", nullptr}});
  chunks_.write(choice_text(index, delta, logprobs, ""));
}

void ChatStream::delta(messages::TokenDelta::Reader message) {
  chunks_.begin();
  owed_++;
  for (auto piece : message.getPieces()) write_piece(piece);
}

void ChatStream::writable() {
  call_.grant(owed_);
  owed_ = 0;
}

void ChatStream::finished(messages::RequestFinished::Reader message) {
  call_.ended();
  if (auto error = failure_of(message)) return chunks_.fail(*error);
  auto ends = message.getOutcome().getChoices();
  for (unsigned i = 0; i < ends.size() && i < choices_.size(); i++) {
    begin_choice(i);
    chunks_.write(choice_text(i, "", "", finish_reason(ends[i].getReason())));
  }
  chunks_.end(chat_usage(message));
}

void ChatStream::cut_short() {
  call_.cancel_silently();
  chunks_.fail(cut_by_drain());
}

}  // namespace troupe::gateway
