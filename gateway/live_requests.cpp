// See live_requests.h.
#include "gateway/live_requests.h"

#include <algorithm>
#include <utility>

namespace troupe::gateway {

RequestId LiveRequests::add(EngineSink& sink) {
  RequestId id{++next_};
  sinks_[id] = {&sink};
  unanswered_++;
  gauge_.set(static_cast<double>(sinks_.size()));
  return id;
}

void LiveRequests::remove(RequestId id) {
  auto found = sinks_.find(id);
  if (found == sinks_.end()) return;
  if (!found->second.answered) unanswered_--;
  sinks_.erase(found);
  gauge_.set(static_cast<double>(sinks_.size()));
}

EngineSink* LiveRequests::sink_of(std::uint64_t id) {
  auto found = sinks_.find(RequestId{id});
  if (found == sinks_.end()) return nullptr;
  if (!std::exchange(found->second.answered, true)) {
    unanswered_--;
    answered_++;
  }
  return found->second.sink;
}

void LiveRequests::admitted(messages::RequestAdmitted::Reader message) {
  if (auto* sink = sink_of(message.getRequest())) sink->admitted(message);
}

void LiveRequests::delta(messages::TokenDelta::Reader message) {
  if (auto* sink = sink_of(message.getRequest())) sink->delta(message);
}

void LiveRequests::finished(messages::RequestFinished::Reader message) {
  auto* sink = sink_of(message.getRequest());
  if (sink == nullptr) return;
  remove(RequestId{message.getRequest()});
  sink->finished(message);
}

EngineCall::EngineCall(LiveRequests& live, const ModelRequest& request, EngineSink& sink)
    : live_(live), id_(live.add(sink)), least_grant_(std::max(request.credit / 2, 1U)) {
  live_.engine()->submit(build_submit(id_, request));
}

void EngineCall::cancel() {
  if (running_) live_.engine()->cancel(id_, false);
}

void EngineCall::cancel_silently() {
  if (!running_) return;
  running_ = false;
  live_.remove(id_);
  live_.engine()->cancel(id_, true);
}

void EngineCall::grant(std::uint32_t deltas) {
  owed_ += deltas;
  if (running_ && owed_ >= least_grant_) live_.engine()->grant_credit(id_, std::exchange(owed_, 0));
}

}  // namespace troupe::gateway
