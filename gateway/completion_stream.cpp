// CompletionStream: see completion_answer.h. Events are written by hand: a token must not cost a tree of JSON values.
#include "gateway/completion_answer.h"
#include "gateway/error_body.h"
#include "gateway/server.h"

#include <utility>

namespace troupe::gateway {
namespace {

std::string choice_text(std::size_t index, std::string_view text, std::string_view logprobs, std::string_view reason) {
  std::string out = "{\"index\":" + std::to_string(index) + ",\"text\":";
  append_json_string(out, text);
  out += ",\"logprobs\":";
  out += logprobs.empty() ? "null" : logprobs;
  out += ",\"finish_reason\":";
  if (reason.empty())
    out += "null";
  else
    append_json_string(out, reason);
  return out + "}";
}

}  // namespace

CompletionStream::CompletionStream(Service& service, Connection& connection, CompletionRequest request)
    : CompletionExchange(service, connection, std::move(request)), owed_(request_.prompts.size()), last_event_(connection.server().now()) {
  prefix_ =
      "{\"id\":\"" + random_id("cmpl-") + "\",\"object\":\"text_completion\",\"created\":" + std::to_string(unix_time()) + ",\"model\":";
  append_json_string(prefix_, model_request().model);
  prefix_ += ",\"system_fingerprint\":null,\"choices\":[";
  submit();
}

void CompletionStream::begin() {
  if (std::exchange(begun_, true)) return;
  connection_.begin_stream("text/event-stream");
  last_event_ = connection_.server().now();
  if (!waiting_.empty()) connection_.stream(std::exchange(waiting_, {}));
}

void CompletionStream::write_event(std::string_view choices, std::string_view usage) {
  std::string event = "data: " + prefix_;
  event += choices;
  event += ']';
  if (request_.include_usage) {  // on all events, so that clients need not guess
    event += ",\"usage\":";
    event += usage.empty() ? "null" : usage;
  }
  event += "}\n\n";
  if (!begun_) {
    waiting_ += event;
    return;
  }
  connection_.stream(event);
  last_event_ = connection_.server().now();
}

void CompletionStream::piece(std::size_t choice, messages::DeltaPiece::Reader piece) {
  std::string logprobs;
  if (model_request().logprobs && piece.hasLogprobs()) {
    CompletionLogprobs entries;
    entries.add(piece, *model_request().logprobs);
    logprobs = entries.json();
  }
  write_event(choice_text(choice, text_of(piece.getText()), logprobs, ""), "");
}

void CompletionStream::writable() {
  if (!begun_) return;
  for (std::size_t i = 0; i < owed_.size(); i++)
    if (owed_[i] > 0) grant(i, std::exchange(owed_[i], 0));
}

void CompletionStream::tick(std::uint64_t now) {
  if (!begun_ || now - last_event_ < service_.limits().sse_ping_ms) return;
  last_event_ = now;
  connection_.stream(": ping\n\n");  // a comment: keeps proxies and clients from giving up during a long prefill
}

void CompletionStream::prompt_finished(std::size_t prompt, messages::RequestFinished::Reader message) {
  auto ends = message.getOutcome().getChoices();
  for (unsigned i = 0; i < ends.size() && i < model_request().choices; i++)
    write_event(choice_text(prompt * model_request().choices + i, "", "", finish_reason(ends[i].getReason())), "");
}

void CompletionStream::all_finished() {
  begin();
  if (request_.include_usage) write_event("", to_text(usage_.chat()));
  connection_.stream("data: [DONE]\n\n");
  connection_.end_stream();
}

void CompletionStream::fail(const Error& error) {
  if (!begun_) return service_.answer_error(connection_, error);
  connection_.stream("data: " + error_body(error) + "\n\ndata: [DONE]\n\n");
  connection_.end_stream();
}

}  // namespace troupe::gateway
