// ChatStream: see chat_answer.h. Events are written by hand: a token must not cost a tree of JSON values.
#include "gateway/answer_json.h"
#include "gateway/chat_answer.h"
#include "gateway/error_body.h"
#include "gateway/server.h"
#include "messages/error_reasons.h"

#include <algorithm>

namespace troupe::gateway {
namespace {

std::string choice_text(std::size_t index, std::string_view delta, std::string_view logprobs, std::string_view reason) {
  std::string out = "{\"index\":" + std::to_string(index) + ",\"delta\":{";
  out += delta;
  out += "},\"logprobs\":";
  out += logprobs.empty() ? "null" : logprobs;
  out += ",\"finish_reason\":";
  if (reason.empty())
    out += "null";
  else
    append_json_string(out, reason);
  out += '}';
  return out;
}

std::string named_string(std::string_view name, std::string_view text) {
  std::string out(1, '"');
  out.append(name).append("\":");
  append_json_string(out, text);
  return out;
}

}  // namespace

ChatStream::ChatStream(Service& service, Connection& connection, ChatRequest request)
    : service_(service),
      connection_(connection),
      request_(std::move(request)),
      choices_(request_.engine.choices),
      last_event_(connection.server().now()),
      call_(service.live(), request_.engine, *this) {
  prefix_ = "{\"id\":\"" + random_id("chatcmpl-") + "\",\"object\":\"chat.completion.chunk\",\"created\":" + std::to_string(unix_time()) +
            ",\"model\":";
  append_json_string(prefix_, request_.engine.model);
  prefix_ += ",\"system_fingerprint\":null,\"choices\":[";
}

void ChatStream::begin() {
  if (begun_) return;
  begun_ = true;
  connection_.begin_stream("text/event-stream");
}

void ChatStream::admitted(messages::RequestAdmitted::Reader) {
  begin();
  last_event_ = connection_.server().now();
}

void ChatStream::write_event(std::string_view choices, std::string_view usage) {
  std::string event = "data: " + prefix_;
  event += choices;
  event += ']';
  if (request_.include_usage) {  // on all events, so that clients need not guess
    event += ",\"usage\":";
    event += usage.empty() ? "null" : usage;
  }
  event += "}\n\n";
  connection_.stream(event);
  last_event_ = connection_.server().now();
}

void ChatStream::begin_choice(std::size_t index) {
  if (choices_[index].begun) return;
  choices_[index].begun = true;
  write_event(choice_text(index, "\"role\":\"assistant\",\"content\":\"\"", "", ""), "");
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
  write_event(choice_text(index, delta, logprobs, ""), "");
}

void ChatStream::delta(messages::TokenDelta::Reader message) {
  begin();
  owed_++;
  for (auto piece : message.getPieces()) write_piece(piece);
}

void ChatStream::writable() {
  call_.grant(owed_);
  owed_ = 0;
}

void ChatStream::tick(std::uint64_t now) {
  if (!begun_ || now - last_event_ < service_.limits().sse_ping_ms) return;
  last_event_ = now;
  connection_.stream(": ping\n\n");  // a comment: keeps proxies and clients from giving up during a long prefill
}

void ChatStream::fail(const Error& error) {
  if (!begun_) return service_.answer_error(connection_, error);
  connection_.stream("data: " + error_body(error) + "\n\ndata: [DONE]\n\n");
  connection_.end_stream();
}

void ChatStream::finished(messages::RequestFinished::Reader message) {
  call_.ended();
  if (auto error = failure_of(message)) return fail(*error);
  begin();
  auto ends = message.getOutcome().getChoices();
  for (unsigned i = 0; i < ends.size() && i < choices_.size(); i++) {
    begin_choice(i);
    write_event(choice_text(i, "", "", finish_reason(ends[i].getReason())), "");
  }
  if (request_.include_usage) write_event("", to_text(chat_usage(message)));
  connection_.stream("data: [DONE]\n\n");
  connection_.end_stream();
}

void ChatStream::cut_short() {
  call_.cancel_silently();
  fail(make_error(ErrorClass::kUnavailable, ErrorReason::kDraining, "the server is shutting down and the request did not end in time", "",
                  "", 1000));
}

}  // namespace troupe::gateway
