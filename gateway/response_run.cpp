// See response_run.h.
#include "gateway/response_run.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <utility>

namespace troupe::gateway {
namespace {

constexpr std::size_t kOverhead = 1024;  // of a stored response beside its texts

std::string with_ids(nlohmann::json items) {
  for (auto& item : items) {
    auto id = item.find("id");
    if (id == item.end() || !id->is_string()) item["id"] = random_id(item["type"] == "message" ? "msg_" : "item_");
  }
  return to_text(items);
}

}  // namespace

std::shared_ptr<ResponseRun> ResponseRun::start(Service& service, ResponsesRequest request) {
  auto id = random_id("resp_");
  if (request.continuable) request.engine.response_id = id;
  return std::shared_ptr<ResponseRun>(new ResponseRun(service, std::move(id), std::move(request)));
}

ResponseRun::ResponseRun(Service& service, std::string id, ResponsesRequest&& request)
    : service_(service),
      id_(std::move(id)),
      owner_(request.engine.owner),
      store_(request.store),
      streamed_(request.stream),
      input_items_(request.store ? with_ids(std::move(request.input_items)) : std::string()),
      body_(std::make_unique<ResponseBody>(id_, request, emitter())),
      idle_since_(service.now()),
      call_(service.live(), request.engine, *this) {}

ResponseBody::Emit ResponseRun::emitter() {
  if (!streamed_) return {};
  return [this](std::string_view type, std::string event) { events_.add(type, std::move(event)); };
}

std::size_t ResponseRun::bytes() const { return kOverhead + object_.capacity() + input_items_.capacity() + events_.bytes(); }

std::uint64_t ResponseRun::needed() const {
  std::uint64_t least = events_.end();
  for (const auto* cursor : cursors_) least = std::min(least, cursor->next_);
  return least;
}

void ResponseRun::settle() {
  const auto& limits = service_.limits();
  forget_events(shelved_ ? limits.resume_bytes : 0);
  if (owed_ > 0 && events_.bytes_from(needed()) <= limits.out_low) call_.grant(std::exchange(owed_, 0));
  if (shelved_) service_.shelf().changed(*this);
}

void ResponseRun::forget_events(std::size_t most) { events_.trim(most, needed()); }

void ResponseRun::tell_readers() {
  auto cursors = cursors_;  // each may go while it is told
  for (auto* cursor : cursors)
    if (std::find(cursors_.begin(), cursors_.end(), cursor) != cursors_.end()) cursor->reader_.more();
  settle();
}

void ResponseRun::detach(EventCursor& cursor) {
  std::erase(cursors_, &cursor);
  if (!cursors_.empty() || ended_) return settle();
  idle_since_ = service_.now();
  if (shelved_ || drop_) return settle();  // it goes on: it may be resumed, or was deleted and is on its way to the end
  ended_ = true;
  call_.cancel_silently();
}

void ResponseRun::admitted(messages::RequestAdmitted::Reader message) {
  auto self = shared_from_this();
  if (ended_) return;
  body_->begin(message.getQueuedRequests() > 0);
  begun_ = true;
  if (store_ && streamed_) {
    shelved_ = true;
    service_.shelf().put(self);
  }
  tell_readers();
}

void ResponseRun::delta(messages::TokenDelta::Reader message) {
  auto self = shared_from_this();
  if (ended_) return;
  owed_++;
  body_->delta(message);
  if (body_->bytes() > service_.limits().answer) return cut_short(answer_too_large(service_.limits()));
  tell_readers();
}

void ResponseRun::finished(messages::RequestFinished::Reader message) {
  call_.ended();
  auto outcome = message.getOutcome();
  if (outcome.isError()) error_ = from_wire(outcome.getError());
  if (!error_ || begun_) {
    body_->finish(message);
    begun_ = true;
  }
  end();
}

void ResponseRun::cut_short(const Error& error) {
  if (ended_) return;
  call_.cancel_silently();
  error_ = error;
  if (begun_) body_->fail(error);
  end();
}

void ResponseRun::end() {
  auto self = shared_from_this();
  ended_ = true;
  idle_since_ = service_.now();
  if (begun_) object_ = body_->object();
  body_.reset();
  // Of a response that was not streamed the client learns the id by its answer.
  if (store_ && !streamed_ && !error_ && !drop_) {
    shelved_ = true;
    service_.shelf().put(self);
  }
  if (drop_) service_.live().engine()->drop_response(owner_, id_);
  service_.shelf().run_ended(*this);
  tell_readers();
}

void ResponseRun::abandon() {
  ended_ = true;
  call_.cancel_silently();
}

void ResponseRun::drop_when_ended() {
  if (ended_)
    service_.live().engine()->drop_response(owner_, id_);
  else
    drop_ = true;
}

EventCursor::EventCursor(std::shared_ptr<ResponseRun> run, ResponseReader& reader, std::uint64_t next)
    : run_(std::move(run)), reader_(reader), next_(next) {
  run_->attach(*this);
}

}  // namespace troupe::gateway
