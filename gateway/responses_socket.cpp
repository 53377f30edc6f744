// See responses_socket.h.
#include "gateway/responses_socket.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"
#include "messages/error_reasons.h"

namespace troupe::gateway {
namespace {

constexpr std::uint16_t kGoingAway = 1001;

}  // namespace

std::string error_event(const Error& error, const std::string& lane) {
  nlohmann::json event = {{"type", "error"}, {"status", http_status(error.error_class)}, {"error", error_json(error)}};
  // The SDK's ResponseErrorEvent has these beside the type.
  for (const char* field : {"message", "code", "param"}) event[field] = event["error"][field];
  if (error.retry_after_ms > 0) event["retry_after"] = (error.retry_after_ms + 999) / 1000;
  if (!lane.empty()) event["stream_id"] = lane;
  return to_text(event);
}

ResponsesSocket::ResponsesSocket(Service& service, Connection& connection, Caller caller)
    : service_(service), connection_(connection), caller_(caller) {}

void ResponsesSocket::send_error(const Error& error, const std::string& lane) { connection_.send_text(error_event(error, lane)); }

void ResponsesSocket::message(WsOpcode opcode, std::string&& text) {
  ended_.clear();
  if (opcode != WsOpcode::kText)
    return send_error(make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadJson, "events must be text messages"), "");
  auto event = parse_json_object(text, service_.limits().json_depth);
  if (!event.ok()) return send_error(event.error(), "");
  try {
    on_event(*event);
  } catch (const std::exception&) {  // see Service::request
    send_error(internal_error(), lane_of(event->value));
  }
}

void ResponsesSocket::on_event(const JsonBody& event) {
  auto type = event.value.find("type");
  if (type != event.value.end() && *type == "response.create") return create(event);
  if (type != event.value.end() && *type == "response.cancel") return cancel(event.value);
  send_error(make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "type must be \"response.create\" or \"response.cancel\"",
                        "type"),
             lane_of(event.value));
}

void ResponsesSocket::create(const JsonBody& event) {
  auto lane = lane_of(event.value);
  auto request = parse_responses_request(event, service_.limits(), ResponsesTransport::kWebSocket);
  if (!request.ok()) return send_error(request.error(), lane);
  if (lanes_.contains(lane))
    return send_error(make_error(ErrorClass::kInvalidRequest, ErrorReason::kBusyLane,
                                 "a response is in progress here: wait for its end, cancel it, or use another stream_id", "stream_id"),
                      lane);
  if (lanes_.size() >= service_.limits().lanes)
    return send_error(make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull,
                                 "at most " + std::to_string(service_.limits().lanes) + " responses may be in progress on a connection",
                                 "stream_id", "", kRetryMs),
                      lane);
  if (auto error = service_.prepare(request->engine, caller_, connection_.id())) return send_error(*error, lane);
  auto& started = lanes_[lane] = std::make_unique<Lane>(*this, lane);
  try {
    started->cursor = std::make_unique<EventCursor>(ResponseRun::start(service_, std::move(*request)), *started, 0);
  } catch (...) {
    lanes_.erase(lane);
    throw;
  }
}

void ResponsesSocket::cancel(const nlohmann::json& event) {
  auto lane = lane_of(event);
  auto wanted = event.find("response_id");
  bool by_id = wanted != event.end() && wanted->is_string();
  for (auto& [name, running] : lanes_)
    if (by_id ? *wanted == running->cursor->run().id() : name == lane) return running->cursor->run().cancel();
  send_error(make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "no such response is in progress on this connection",
                        "response_id"),
             lane);
}

bool ResponsesSocket::write_one(Lane& lane) {
  const auto* event = lane.cursor->peek();
  if (event == nullptr) return false;
  if (lane.name.empty()) {
    connection_.send_text(event->json);
  } else {
    std::string text = event->json.substr(0, event->json.size() - 1) + ",\"stream_id\":";
    append_json_string(text, lane.name);
    connection_.send_text(text + "}");
  }
  lane.cursor->pop();
  return true;
}

void ResponsesSocket::pump(bool all) {
  // One event a lane and turn, from behind the lane that was served last: a long backlog holds nobody up.
  for (bool wrote = true; wrote;) {
    wrote = false;
    auto next = lanes_.upper_bound(last_served_);
    for (std::size_t left = lanes_.size(); left > 0 && (all || connection_.has_room()); left--) {
      if (next == lanes_.end()) next = lanes_.begin();
      auto here = next++;
      auto& lane = *here->second;
      if (write_one(lane)) {
        wrote = true;
        last_served_ = lane.name;
      }
      if (!lane.cursor->at_end()) continue;
      auto& run = lane.cursor->run();
      if (!run.begun() && run.error()) send_error(*run.error(), lane.name);
      ended_.push_back(std::move(here->second));
      lanes_.erase(here);
    }
  }
  if (service_.draining() && lanes_.empty()) connection_.close_websocket(kGoingAway, "server is shutting down");
}

void ResponsesSocket::writable() {
  ended_.clear();
  pump();
  for (auto& [name, lane] : lanes_) lane->cursor->settle();
}

void ResponsesSocket::hung_up() {
  lanes_.clear();                                                 // stored responses go on without a reader, others are cancelled
  service_.live().engine()->connection_closed(connection_.id());  // responses of retention `connection` go with it
}

void ResponsesSocket::cut_short() {
  std::vector<std::shared_ptr<ResponseRun>> runs;
  for (auto& [name, lane] : lanes_) runs.push_back(lane->cursor->run().shared_from_this());
  for (auto& run : runs) run->cut_short(cut_by_drain());
  pump(true);
}

}  // namespace troupe::gateway
