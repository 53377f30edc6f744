// See response_answers.h.
#include "gateway/response_answers.h"

#include "gateway/error_body.h"
#include "gateway/server.h"
#include "messages/error_reasons.h"

namespace troupe::gateway {
namespace {

Error draining_error() {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kDraining, "the server is shutting down and the response did not end in time",
                    "", "", 1000);
}

}  // namespace

ResponseAnswer::ResponseAnswer(Service& service, Connection& connection, std::shared_ptr<ResponseRun> run)
    : service_(service), connection_(connection), cursor_(std::make_unique<EventCursor>(std::move(run), *this, EventCursor::kEndOnly)) {}

void ResponseAnswer::more() {
  const auto& run = cursor_->run();
  if (!run.ended()) return;
  if (run.error()) return service_.answer_error(connection_, *run.error());
  connection_.respond(200, "application/json", run.object());
}

void ResponseAnswer::cut_short() {
  cursor_.reset();
  service_.answer_error(connection_, draining_error());
}

ResponseStream::ResponseStream(Service& service, Connection& connection, std::shared_ptr<ResponseRun> run, std::uint64_t next)
    : service_(service),
      connection_(connection),
      cursor_(std::make_unique<EventCursor>(std::move(run), *this, next)),
      last_event_(connection.server().now()) {}

void ResponseStream::pump(bool all) {
  if (over_) return;
  const auto& run = cursor_->run();
  if (!run.begun()) {
    if (!run.ended()) return;
    over_ = true;
    return service_.answer_error(connection_, run.error() ? *run.error() : internal_error());
  }
  if (!begun_) connection_.begin_stream("text/event-stream");
  begun_ = true;
  std::string text;
  while (all || connection_.has_room()) {
    const auto* event = cursor_->peek();
    if (event == nullptr) break;
    text.assign("event: ").append(event->type).append("\ndata: ").append(event->json).append("\n\n");
    connection_.stream(text);
    cursor_->pop();
    last_event_ = connection_.server().now();
  }
  if (!cursor_->at_end()) return;
  over_ = true;
  connection_.end_stream();
}

void ResponseStream::writable() {
  pump();
  cursor_->settle();
}

void ResponseStream::tick(std::uint64_t now) {
  if (!begun_ || over_ || now - last_event_ < service_.limits().sse_ping_ms || !connection_.has_room()) return;
  last_event_ = now;
  connection_.stream(": ping\n\n");  // a comment: keeps proxies and clients from giving up during a long prefill
}

void ResponseStream::cut_short() {
  auto run = cursor_->run().shared_from_this();
  run->cut_short(draining_error());
  pump(true);
}

InputTokensAnswer::InputTokensAnswer(Service& service, Connection& connection, const ModelRequest& request)
    : service_(service), connection_(connection), call_(service.live(), request, *this) {}

void InputTokensAnswer::finished(messages::RequestFinished::Reader message) {
  call_.ended();
  auto outcome = message.getOutcome();
  if (outcome.isError()) return service_.answer_error(connection_, from_wire(outcome.getError()));
  if (!outcome.isTokens()) return service_.answer_error(connection_, internal_error());
  connection_.respond(200, "application/json",
                      to_text({{"object", "response.input_tokens"}, {"input_tokens", outcome.getTokens().size()}}));
}

void InputTokensAnswer::cut_short() {
  call_.cancel_silently();
  service_.answer_error(connection_, draining_error());
}

}  // namespace troupe::gateway
