// POST /v1/responses over real sockets, against a fake engine: whole answers and SSE, the order of events, ends of every kind.
#include "tests/gateway/response_events.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

TestAnswer post(RunningGateway& running, json body) {
  if (!body.contains("model")) body["model"] = "tiny";
  return TestClient(running.port()).post("/v1/responses", body.dump());
}

}  // namespace

TEST_CASE("a whole response") {
  RunningGateway running;
  auto answer = post(running, {{"input", "words=2"}, {"instructions", "be brief"}, {"metadata", {{"a", "b"}}}, {"max_output_tokens", 9}});
  REQUIRE(answer.status == 200);
  CHECK(answer.headers["content-type"] == "application/json");
  auto response = answer.json();
  CHECK(response["object"] == "response");
  CHECK(response["id"].get<std::string>().size() == 5 + 32);  // 128 random bits
  CHECK(response["status"] == "completed");
  CHECK(response["error"].is_null());
  CHECK(response["incomplete_details"].is_null());
  CHECK(response["instructions"] == "be brief");
  CHECK(response["metadata"]["a"] == "b");
  CHECK(response["max_output_tokens"] == 9);
  CHECK(response["background"] == false);
  CHECK(response["store"] == true);
  CHECK(response["truncation"] == "disabled");
  CHECK(response["completed_at"] >= response["created_at"]);
  CHECK(text_of_response(response) == " w0 w1");
  CHECK(response["output"][0]["role"] == "assistant");
  CHECK(response["usage"] ==
        json{{"input_tokens", 7},
             {"input_tokens_details",
              {{"cached_tokens", 4},
               {"cache_report", {{"device", 4}, {"host", 0}, {"disk", 0}, {"computed", 3}, {"load_ms", 0}, {"miss", "none"}}}}},
             {"output_tokens", 2},
             {"output_tokens_details", {{"reasoning_tokens", 0}}},
             {"total_tokens", 9}});
  auto submitted = running.engine.submitted()[0];
  CHECK(submitted->getResponseId() == response["id"].get<std::string>());
  CHECK(submitted->getRetention() == messages::Retention::MEMORY);
  CHECK_FALSE(submitted->getStream());
  post(running, {{"input", "x"}, {"store", false}});
  CHECK(running.engine.submitted()[1]->getResponseId().size() == 0);  // nothing to keep
}

TEST_CASE("the events of a streamed response, in order, each a line of JSON with its name") {
  RunningGateway running;
  TestClient client(running.port());
  auto answer = client.post("/v1/responses", json{{"input", "words=2"}, {"stream", true}}.dump());
  REQUIRE(answer.status == 200);
  CHECK(answer.headers["content-type"] == "text/event-stream");
  Events events;
  for (const auto& data : answer.events()) events.push_back(json::parse(data));  // R04: every data line parses
  CHECK(types(events) == std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                                  "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                                                  "response.output_text.done", "response.content_part.done", "response.output_item.done",
                                                  "response.completed"});
  std::size_t at = 0;
  for (std::size_t i = 0; i < events.size(); i++) {
    CHECK(events[i]["sequence_number"] == i);
    CHECK_FALSE(events[i].contains("stream_id"));
    auto name = "event: " + events[i]["type"].get<std::string>() + "\ndata: {";
    at = answer.body.find(name, at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(joined_text(events) == text_of_response(events.back()["response"]));
  // The connection is kept, and the stored object is the one that the stream ended with.
  auto stored = client.get("/v1/responses/" + events[0]["response"]["id"].get<std::string>());
  CHECK(stored.json() == events.back()["response"]);
}

TEST_CASE("a response that waits behind others says so") {
  RunningGateway running;
  ResponseClient client(running);
  client.client.send_request("POST", "/v1/responses", json{{"input", "nothing"}, {"stream", true}}.dump());
  REQUIRE(eventually([&] { return running.engine.submitted().size() == 1; }));
  auto request = last_request(running);
  running.gateway.admitted(Message<messages::RequestAdmitted>::build([&](auto out) {
    out.setRequest(request);
    out.setQueuedRequests(3);
  }));
  CHECK(client.client.read_head().status == 200);
  CHECK(client.next()["response"]["status"] == "queued");
  auto queued = client.next();
  CHECK(queued["type"] == "response.queued");
  CHECK(queued["response"]["status"] == "queued");
  give_text(running, request, "x");
  give_end(running, request);
  auto rest = client.rest();
  CHECK(types(rest).front() == "response.in_progress");
  CHECK(types(rest).back() == "response.completed");
}

TEST_CASE("other ends, streamed and whole") {
  RunningGateway running;
  auto length = post(running, {{"input", "length"}}).json();
  CHECK(length["status"] == "incomplete");
  CHECK(length["incomplete_details"]["reason"] == "max_output_tokens");
  CHECK(length["output"][0]["status"] == "incomplete");
  CHECK(post(running, {{"input", "fail"}}).status == 500);
  auto refused = post(running, {{"input", "refuse"}, {"stream", true}});
  CHECK(refused.status == 429);
  CHECK(refused.headers["retry-after"] == "2");
  CHECK(post(running, {{"input", "lost"}}).json()["error"]["code"] == "context_length_exceeded");
  CHECK(post(running, {{"input", "x"}, {"model", "nobody"}}).status == 404);
  CHECK(post(running, {{"input", json::array()}}).status == 400);
  CHECK(post(running, {{"input", "x"}, {"temperature", 9}}).json()["error"]["param"] == "temperature");
  CHECK(TestClient(running.port()).post("/v1/responses", "{").status == 400);
  auto warm = post(running, {{"input", "warm up"}, {"generate", false}}).json();
  CHECK(warm["status"] == "completed");
  CHECK(warm["output"].empty());
  CHECK(text_of_response(post(running, {{"input", "words=0"}}).json()).empty());
}

TEST_CASE("an engine error in mid-stream is the one terminal event, and is kept") {
  RunningGateway running;
  ResponseClient client(running);
  REQUIRE(client.create("fail").status == 200);
  auto events = client.rest();
  CHECK(types(events) == std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                                  "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                                                  "response.content_part.done", "response.output_item.done", "response.failed"});
  const auto& response = events.back()["response"];
  CHECK(response["status"] == "failed");
  CHECK(response["error"]["code"] == "compute_fault");
  CHECK(response["output"][0]["status"] == "incomplete");
  CHECK(TestClient(running.port()).get("/v1/responses/" + response["id"].get<std::string>()).json() == response);
}

TEST_CASE("a session that dies ends the stream once") {
  RunningGateway running;
  ResponseClient client(running);
  REQUIRE(client.create("hang").status == 200);
  give_text(running, last_request(running), "so far");
  give_error(running, last_request(running), ErrorReason::kActorDied);
  give_error(running, last_request(running), ErrorReason::kActorDied);  // a second end is dropped
  auto events = client.rest();
  CHECK(events.back()["type"] == "response.failed");
  CHECK(events.back()["response"]["error"]["code"] == "actor_died");
  CHECK(text_of_response(events.back()["response"]) == "so far");
}

TEST_CASE("log-probabilities over HTTP") {
  RunningGateway running;
  auto asked = post(running, {{"input", "x"}, {"include", {"message.output_text.logprobs"}}, {"top_logprobs", 1}}).json();
  CHECK(asked["top_logprobs"] == 1);
  auto entry = asked["output"][0]["content"][0]["logprobs"][0];
  CHECK(entry["logprob"] == -0.5);
  CHECK(entry["top_logprobs"][0]["token"] == "other");
  CHECK(post(running, {{"input", "x"}}).json()["output"][0]["content"][0]["logprobs"].empty());
}

TEST_CASE("input tokens are counted without generating") {
  RunningGateway running;
  TestClient client(running.port());
  auto counted = client.post("/v1/responses/input_tokens", json{{"input", "x"}, {"instructions", "i"}}.dump()).json();
  CHECK(counted == json{{"object", "response.input_tokens"}, {"input_tokens", 1}});
  CHECK(running.engine.submitted()[0]->getEndpoint() == messages::Endpoint::TOKENIZE);
  CHECK(client.post("/v1/responses/input_tokens", "{}").json()["error"]["param"] == "input");
}

TEST_CASE("a response that is not stored is cancelled with its reader") {
  RunningGateway running;
  {
    ResponseClient stream(running);
    REQUIRE(stream.create("hang", {{"store", false}}).status == 200);
    TestClient whole(running.port());
    whole.send_request("POST", "/v1/responses", json{{"input", "hang"}}.dump());
    REQUIRE(eventually([&] { return running.engine.submitted().size() == 2; }));
  }
  // Nobody knows the id of the whole one, so that goes, too.
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 2; }));
}

TEST_CASE("a drain cuts a stream with its terminal event and a whole answer with an error") {
  RunningGateway running;
  ResponseClient stream(running);
  REQUIRE(stream.create("hang").status == 200);
  TestClient whole(running.port());
  whole.send_request("POST", "/v1/responses", json{{"input", "hang"}}.dump());
  REQUIRE(eventually([&] { return running.engine.submitted().size() == 2; }));
  running.gateway.drain(std::chrono::milliseconds(300));
  auto events = stream.rest();
  CHECK(events.back()["type"] == "response.failed");
  CHECK(events.back()["response"]["error"]["code"] == "server_draining");
  auto answer = whole.read_answer();
  CHECK(answer.status == 503);
  CHECK(answer.headers.contains("retry-after"));
  running.join();
  CHECK(running.cut == 2);
}

TEST_CASE("a response that outgrows its bound fails and says so, streamed or not") {
  GatewayOptions options;
  options.limits.answer = 1000;
  RunningGateway running(options);
  auto whole = post(running, {{"input", "words=2000"}});
  CHECK(whole.status == 400);
  CHECK(whole.json()["error"]["message"].get<std::string>().find("ask for fewer") != std::string::npos);
  auto events = TestClient(running.port()).post("/v1/responses", json{{"input", "words=2000"}, {"stream", true}}.dump()).events();
  auto last = json::parse(events.back());
  CHECK(last["type"] == "response.failed");
  CHECK(last["response"]["error"]["message"].get<std::string>().find("ask for fewer") != std::string::npos);
  CHECK(post(running, {{"input", "words=2"}}).status == 200);
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 2; }));
}

TEST_CASE("a response repeats nothing without a bound") {
  RunningGateway running;
  TestClient client(running.port());
  const json big(std::vector<int>(1000, 7));
  for (const std::string field : {"user", "safety_identifier", "parallel_tool_calls", "max_tool_calls", "text"}) {
    json body = {{"input", "words=1"}};
    body[field] = field == "text" ? json{{"unknown", big}} : big;
    INFO(field);
    auto answer = client.post("/v1/responses", body.dump());
    CHECK(answer.status == 200);
    CHECK(answer.body.size() < 2000);
  }
}
