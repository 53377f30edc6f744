// See response_answers.h.
#include "gateway/response_answers.h"

#include "gateway/error_body.h"
#include "gateway/server.h"

namespace troupe::gateway {
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
  service_.answer_error(connection_, cut_by_drain());
}

ResponseStream::ResponseStream(Service& service, Connection& connection, std::shared_ptr<ResponseRun> run, std::uint64_t next)
    : service_(service),
      connection_(connection),
      cursor_(std::make_unique<EventCursor>(std::move(run), *this, next)),
      ping_(service.now(), service.limits().sse_ping_ms) {}

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
    ping_.event_sent(service_.now());
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
  if (begun_ && !over_) ping_.tick(connection_, now);
}

void ResponseStream::cut_short() {
  auto run = cursor_->run().shared_from_this();
  run->cut_short(cut_by_drain());
  pump(true);
}

}  // namespace troupe::gateway
