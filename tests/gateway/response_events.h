// What the tests of the Responses endpoints share: requests, events in order, and engine messages made by hand for a request that hangs.
#pragma once
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <memory>
#include <string>
#include <vector>

namespace troupe::gateway {

using Events = std::vector<nlohmann::json>;

inline bool terminal(const nlohmann::json& event) {
  auto type = event["type"].get<std::string>();
  return type == "response.completed" || type == "response.incomplete" || type == "response.failed" || type == "error";
}

inline std::vector<std::string> types(const Events& events) {
  std::vector<std::string> out;
  for (const auto& event : events) out.push_back(event["type"]);
  return out;
}

inline std::string joined_text(const Events& events) {
  std::string text;
  for (const auto& event : events)
    if (event["type"] == "response.output_text.delta") text += event["delta"];
  return text;
}

inline std::string text_of_response(const nlohmann::json& response) { return response["output"][0]["content"][0]["text"]; }

/// A response over HTTP that streams; reads event by event.
struct ResponseClient {
  explicit ResponseClient(RunningGateway& running) : client(running.port()) {}
  TestAnswer create(const std::string& input, nlohmann::json more = nlohmann::json::object(), const std::string& headers = {}) {
    nlohmann::json body = {{"model", "tiny"}, {"input", input}, {"stream", true}};
    body.update(more);
    client.send_request("POST", "/v1/responses", body.dump(), headers);
    return client.read_head();
  }
  TestAnswer resume(const std::string& id, std::int64_t after = -1, const std::string& headers = {}) {
    client.send_request("GET", "/v1/responses/" + id + "?stream=true" + (after >= 0 ? "&starting_after=" + std::to_string(after) : ""), "",
                        headers);
    return client.read_head();
  }
  nlohmann::json next() {
    auto data = client.read_stream_event();
    if (!data) throw std::runtime_error("the stream has ended");
    return nlohmann::json::parse(*data);
  }
  /// Events to the end of the stream.
  Events rest() {
    Events events;
    while (auto data = client.read_stream_event()) events.push_back(nlohmann::json::parse(*data));
    return events;
  }
  TestClient client;
};

inline std::uint64_t last_request(RunningGateway& running) { return running.engine.submitted().back()->getRequest(); }

/// One delta of a request that "hang"s, from another thread than the loop's, as real engines do.
inline void give_text(RunningGateway& running, std::uint64_t request, const std::string& text) {
  running.gateway.delta(Message<messages::TokenDelta>::build([&](messages::TokenDelta::Builder out) {
    out.setRequest(request);
    auto piece = out.initPieces(1)[0];
    piece.setTokens(1);
    piece.setText(text);
  }));
}

inline void give_end(RunningGateway& running, std::uint64_t request) {
  running.gateway.finished(Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
    out.setRequest(request);
    out.getOutcome().initChoices(1)[0].setReason(messages::FinishReason::STOP);
    out.setPromptTokens(7);
  }));
}

inline void give_error(RunningGateway& running, std::uint64_t request, ErrorReason reason) {
  running.gateway.finished(Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
    out.setRequest(request);
    auto error = out.getOutcome().initError();
    error.setClass(messages::ErrorClass::INTERNAL);
    error.setReason(static_cast<std::uint16_t>(reason));
    error.setClientText("made to fail");
  }));
}

}  // namespace troupe::gateway
