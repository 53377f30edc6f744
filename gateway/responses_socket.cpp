// See responses_socket.h.
#include "gateway/responses_socket.h"

#include "messages/error_reasons.h"

namespace troupe::gateway {
namespace {

constexpr std::uint16_t kGoingAway = 1001;
constexpr std::uint32_t kRetryMs = 1000;

Error draining_error() {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kDraining, "the server is shutting down and the response did not end in time",
                    "", "", kRetryMs);
}

}  // namespace

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
    send_error(internal_error(), lane_of(*event));
  }
}

void ResponsesSocket::on_event(const nlohmann::json& event) {
  auto type = event.find("type");
  if (type != event.end() && *type == "response.create") return create(event);
  if (type != event.end() && *type == "response.cancel") return cancel(event);
  send_error(make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "type must be \"response.create\" or \"response.cancel\"",
                        "type"),
             lane_of(event));
}

void ResponsesSocket::create(const nlohmann::json& event) {
  auto lane = lane_of(event);
  auto request = parse_responses_request(event, service_.limits());
  if (!request.ok()) return send_error(request.error(), lane);
  if (turns_.contains(lane))
    return send_error(make_error(ErrorClass::kInvalidRequest, ErrorReason::kBusyLane,
                                 "a response is in progress here: wait for its end, cancel it, or use another stream_id", "stream_id"),
                      lane);
  if (turns_.size() >= service_.limits().lanes)
    return send_error(make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull,
                                 "at most " + std::to_string(service_.limits().lanes) + " responses may be in progress on a connection",
                                 "stream_id", "", kRetryMs),
                      lane);
  if (auto error = service_.prepare(request->engine, caller_, connection_.id())) return send_error(*error, lane);
  request->engine.response_id = random_id("resp_");
  ResponsesTurn::Hooks hooks;
  hooks.send = [this](std::string text) { connection_.send_text(text); };
  hooks.over = [this, lane] { turn_over(lane); };
  turns_[lane] = std::make_unique<ResponsesTurn>(service_, std::move(*request), std::move(hooks));
}

void ResponsesSocket::cancel(const nlohmann::json& event) {
  auto lane = lane_of(event);
  auto wanted = event.find("response_id");
  bool by_id = wanted != event.end() && wanted->is_string();
  for (auto& [name, turn] : turns_)
    if (by_id ? *wanted == turn->response_id() : name == lane) return turn->cancel();
  send_error(make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "no such response is in progress on this connection",
                        "response_id"),
             lane);
}

void ResponsesSocket::turn_over(const std::string& lane) {
  auto found = turns_.find(lane);
  if (found == turns_.end()) return;
  ended_.push_back(std::move(found->second));
  turns_.erase(found);
  if (service_.draining() && turns_.empty()) connection_.close_websocket(kGoingAway, "server is shutting down");
}

void ResponsesSocket::writable() {
  ended_.clear();
  for (auto& [lane, turn] : turns_) turn->grant_owed();
}

void ResponsesSocket::hung_up() {
  for (auto& [lane, turn] : turns_) turn->hung_up();
  turns_.clear();
  service_.live().engine()->connection_closed(connection_.id());  // responses of retention `connection` go with it
}

void ResponsesSocket::cut_short() {
  auto turns = std::move(turns_);
  turns_.clear();
  for (auto& [lane, turn] : turns) turn->cut_short(draining_error());
}

}  // namespace troupe::gateway
