// The Responses WebSocket over real sockets, against a fake engine: the order of events, exactly one terminal event, errors that keep
// the socket, lanes, cancel, drain.
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

std::unique_ptr<TestClient> connected(RunningGateway& running) {
  auto client = std::make_unique<TestClient>(running.port());
  REQUIRE(client->upgrade("/v1/responses").status == 101);
  return client;
}

json create(const std::string& input, const json& more = json::object()) {
  json event = {{"type", "response.create"}, {"model", "tiny"}, {"input", input}};
  event.update(more);
  return event;
}

bool terminal(const json& event) {
  auto type = event["type"].get<std::string>();
  return type == "response.completed" || type == "response.incomplete" || type == "response.failed" || type == "error";
}

std::vector<json> read_response(TestClient& client) {
  std::vector<json> events;
  do events.push_back(client.read_event());
  while (!terminal(events.back()));
  return events;
}

std::vector<std::string> types(const std::vector<json>& events) {
  std::vector<std::string> out;
  for (const auto& event : events) out.push_back(event["type"]);
  return out;
}

}  // namespace

TEST_CASE("the events of a response, in order") {
  RunningGateway running;
  auto client = connected(running);
  client->send_event(create("words=2", {{"stream_id", "lane"}, {"store", false}}));
  auto events = read_response(*client);
  CHECK(types(events) == std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                                  "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                                                  "response.output_text.done", "response.content_part.done", "response.output_item.done",
                                                  "response.completed"});
  for (std::size_t i = 0; i < events.size(); i++) {
    CHECK(events[i]["sequence_number"] == i);
    CHECK(events[i]["stream_id"] == "lane");
  }
  CHECK(events[0]["response"]["status"] == "in_progress");
  CHECK(events[0]["response"]["output"].empty());
  CHECK(events[4]["delta"] == " w0");
  CHECK(events[6]["text"] == " w0 w1");
  const auto& response = events.back()["response"];
  CHECK(response["id"] == events[0]["response"]["id"]);
  CHECK(response["output"][0]["content"][0]["text"] == " w0 w1");
  CHECK(response["output"][0]["status"] == "completed");
  CHECK(response["usage"]["input_tokens"] == 7);
  CHECK(response["usage"]["input_tokens_details"]["cached_tokens"] == 4);
  CHECK(response["usage"]["total_tokens"] == 9);
  CHECK(response["store"] == false);
  auto submitted = running.engine.submitted()[0];
  CHECK(submitted->getEndpoint() == messages::Endpoint::RESPONSES);
  CHECK(submitted->getResponseId() == response["id"].get<std::string>());
  CHECK(submitted->getRetention() == messages::Retention::CONNECTION);
}

TEST_CASE("a response continues an earlier one") {
  RunningGateway running;
  auto client = connected(running);
  client->send_event(create("words=1"));
  auto id = read_response(*client).back()["response"]["id"].get<std::string>();
  client->send_event(create("words=1", {{"previous_response_id", id}}));
  auto second = read_response(*client).back()["response"];
  CHECK(second["previous_response_id"] == id);
  CHECK(second["id"] != id);
  CHECK(running.engine.submitted()[1]->getPreviousResponseId() == id);
}

TEST_CASE("ends other than completed") {
  RunningGateway running;
  auto client = connected(running);
  client->send_event(create("length"));
  auto incomplete = read_response(*client).back();
  CHECK(incomplete["type"] == "response.incomplete");
  CHECK(incomplete["response"]["incomplete_details"]["reason"] == "max_output_tokens");
  client->send_event(create("fail"));
  auto failed = read_response(*client).back();
  CHECK(failed["type"] == "response.failed");
  CHECK(failed["response"]["error"]["code"] == "compute_fault");
  client->send_event(create("refuse"));
  auto refused = client->read_event();
  CHECK(refused["type"] == "error");
  CHECK(refused["status"] == 429);
  CHECK(refused["retry_after"] == 2);
  client->send_event(create("words=0"));
  auto empty = read_response(*client).back();
  CHECK(empty["response"]["output"][0]["content"][0]["text"] == "");
  client->send_event(create("warm up", {{"generate", false}}));
  auto warm = read_response(*client).back();
  CHECK(warm["type"] == "response.completed");
  CHECK(warm["response"]["output"].empty());
}

TEST_CASE("errors keep the socket") {
  RunningGateway running;
  auto client = connected(running);
  auto expect_error = [&](const char* code, const char* param) {
    auto event = client->read_event();
    CHECK(event["type"] == "error");
    CHECK(event["error"]["code"] == code);
    if (param != nullptr) CHECK(event["error"]["param"] == param);
    CHECK(event["status"].get<int>() >= 400);
  };
  client->send_frame(1, "{not json");
  expect_error("invalid_json", nullptr);
  client->send_frame(1, "[]");
  expect_error("invalid_json", nullptr);
  client->send_frame(2, "\x01\x02");
  expect_error("invalid_json", nullptr);
  client->send_event({{"type", "response.unknown"}});
  expect_error("invalid_value", "type");
  client->send_event({{"type", 5}});
  expect_error("invalid_value", "type");
  client->send_event({{"type", "response.create"}});
  expect_error("missing_required_parameter", "input");
  client->send_event(create("x", {{"temperature", 9}}));
  expect_error("invalid_value", "temperature");
  client->send_event(create("x", {{"model", "nobody"}}));
  expect_error("model_not_found", "model");
  client->send_event({{"type", "response.cancel"}});
  expect_error("invalid_value", "response_id");
  client->send_event(create("words=1"));
  CHECK(read_response(*client).back()["type"] == "response.completed");
}

TEST_CASE("one response a lane, and cancel ends it once") {
  RunningGateway running;
  auto client = connected(running);
  client->send_event(create("hang", {{"stream_id", "a"}}));
  CHECK(client->read_event()["type"] == "response.created");
  auto id = client->read_event()["response"]["id"];
  client->send_event(create("words=1", {{"stream_id", "a"}}));
  auto busy = client->read_event();
  CHECK(busy["error"]["code"] == "response_in_progress");
  CHECK(busy["stream_id"] == "a");
  client->send_event(create("words=1", {{"stream_id", "b"}}));
  CHECK(read_response(*client).back()["stream_id"] == "b");
  client->send_event({{"type", "response.cancel"}, {"response_id", id}});
  auto end = client->read_event();
  CHECK(end["type"] == "response.incomplete");
  CHECK(end["response"]["incomplete_details"]["reason"] == "cancelled");
  CHECK(running.engine.cancels().size() == 1);
  client->send_event(create("words=1", {{"stream_id", "a"}}));  // the lane is free, and the next events are its own
  CHECK(types(read_response(*client)).front() == "response.created");
}

TEST_CASE("lanes are bounded") {
  GatewayOptions options;
  options.limits.lanes = 2;
  RunningGateway running(options);
  auto client = connected(running);
  for (const char* lane : {"a", "b"}) {
    client->send_event(create("hang", {{"stream_id", lane}}));
    client->read_event();
    client->read_event();
  }
  client->send_event(create("hang", {{"stream_id", "c"}}));
  CHECK(client->read_event()["status"] == 429);
}

TEST_CASE("a socket that goes cancels its lanes that are not stored and forgets their responses") {
  RunningGateway running;
  auto client = connected(running);
  for (const char* lane : {"a", "b", "c"}) client->send_event(create("hang", {{"stream_id", lane}, {"store", false}}));
  CHECK(eventually([&] { return running.engine.submitted().size() == 3; }));
  client->close();
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 3 && running.engine.closed().size() == 1; }));
}

TEST_CASE("a reader that stops on a WebSocket is cut") {
  GatewayOptions options;
  options.limits.stall_ms = 300;
  RunningGateway running(options);
  auto client = connected(running);
  client->send_event(create("words=100000000", {{"store", false}}));
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 1; }));
}

TEST_CASE("more deltas than the credit, all delivered") {
  RunningGateway running;
  auto client = connected(running);
  client->send_event(create("words=3000"));
  auto events = read_response(*client);
  CHECK(events.back()["response"]["usage"]["output_tokens"] == 3000);
  std::string text;
  for (const auto& event : events)
    if (event["type"] == "response.output_text.delta") text += event["delta"];
  CHECK(text == events.back()["response"]["output"][0]["content"][0]["text"]);
}

TEST_CASE("log-probabilities of a response") {
  RunningGateway running;
  auto client = connected(running);
  client->send_event(create("x", {{"top_logprobs", 1}}));
  auto events = read_response(*client);
  CHECK(events[4]["logprobs"][0]["top_logprobs"][0]["token"] == "other");
  CHECK(events.back()["response"]["output"][0]["content"][0]["logprobs"][0]["logprob"] == -0.5);
}

TEST_CASE("a drain refuses late requests in words, then ends idle sockets, and busy ones with a terminal event") {
  RunningGateway running;
  auto idle = connected(running);
  auto busy = connected(running);
  busy->send_event(create("hang"));
  busy->read_event();
  busy->read_event();
  running.gateway.drain(std::chrono::milliseconds(1200));
  idle->send_event(create("words=1"));  // was on its way
  CHECK(idle->read_event()["error"]["code"] == "server_draining");
  auto [opcode, payload] = idle->read_frame();
  CHECK(opcode == 8);
  CHECK(payload.substr(0, 2) == "\x03\xe9");
  busy->send_event(create("words=1", {{"stream_id", "late"}}));
  CHECK(busy->read_event()["error"]["code"] == "server_draining");
  auto end = busy->read_event();
  CHECK(end["type"] == "response.failed");
  CHECK(end["response"]["error"]["code"] == "server_draining");
  CHECK(busy->read_frame().first == 8);
  idle->send_frame(8, "\x03\xe9");
  busy->send_frame(8, "\x03\xe9");
  running.join();
  CHECK(running.cut == 1);
}
