// Chat completions and the plain endpoints over real sockets, against a fake engine.
#include "runtime/base/hash.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

std::string chat_body(const std::string& text, const json& more = json::object()) {
  json body = {{"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", text}}}}};
  body.update(more);
  return body.dump();
}

std::string streamed_text(const TestAnswer& answer, int choice = 0) {
  std::string text;
  for (const auto& event : answer.events()) {
    if (event == "[DONE]") break;
    auto parsed = json::parse(event);
    for (const auto& entry : parsed["choices"])
      if (entry["index"] == choice) text += entry["delta"].value("content", "");
  }
  return text;
}

}  // namespace

TEST_CASE("a chat completion, whole") {
  RunningGateway running;
  TestClient client(running.port());
  auto answer = client.post("/v1/chat/completions", chat_body("words=3"));
  CHECK(answer.status == 200);
  CHECK(answer.headers["content-type"] == "application/json");
  auto body = answer.json();
  CHECK(body["object"] == "chat.completion");
  CHECK(body["model"] == "tiny");
  CHECK(body["choices"][0]["message"]["content"] == " w0 w1 w2");
  CHECK(body["choices"][0]["finish_reason"] == "stop");
  CHECK(body["choices"][0]["logprobs"].is_null());
  CHECK(body["usage"]["total_tokens"] == 10);
  CHECK(body["usage"]["prompt_tokens_details"]["cached_tokens"] == 4);
  // The same connection again, and more deltas than the credit allows at once.
  CHECK(client.post("/v1/chat/completions", chat_body("words=500")).json()["usage"]["completion_tokens"] == 500);
  CHECK(client.post("/v1/chat/completions", chat_body("length")).json()["choices"][0]["finish_reason"] == "length");
  auto submitted = running.engine.submitted();
  REQUIRE(submitted.size() == 3);
  CHECK(submitted[0]->getKeyDomains()[0].getLow() == 2);
  CHECK(submitted[0]->getSampling().getSeed() != submitted[1]->getSampling().getSeed());  // drawn, and not always the same
  CHECK(submitted[0]->getRequest() != submitted[1]->getRequest());
}

TEST_CASE("credits go back in few messages, and in time") {
  GatewayOptions options;
  options.limits.credit = 20;
  RunningGateway running(options);
  TestClient client(running.port());
  auto answer = client.post("/v1/chat/completions", chat_body("words=205", {{"stream", true}}));
  REQUIRE(answer.events().size() == 205 + 3);
  CHECK(running.engine.grants() > 0);
  CHECK(running.engine.grants() <= 20);  // at least ten at a time
}

TEST_CASE("a chat completion, streamed") {
  RunningGateway running;
  TestClient client(running.port());
  auto answer = client.post("/v1/chat/completions",
                            chat_body("words=300", {{"stream", true}, {"n", 2}, {"stream_options", {{"include_usage", true}}}}));
  CHECK(answer.status == 200);
  CHECK(answer.headers["content-type"] == "text/event-stream");
  auto events = answer.events();
  REQUIRE(events.size() == 300 * 2 + 2 + 2 + 1 + 1);  // deltas, roles, finish reasons, usage, [DONE]
  CHECK(events.back() == "[DONE]");
  auto first = json::parse(events.front());
  CHECK(first["choices"][0]["delta"]["role"] == "assistant");
  CHECK(first["usage"].is_null());
  auto last = json::parse(events[events.size() - 2]);
  CHECK(last["choices"].empty());
  CHECK(last["usage"]["completion_tokens"] == 600);
  CHECK(streamed_text(answer, 0) == streamed_text(answer, 1));
  int ends = 0;
  for (const auto& event : events) {
    if (event == "[DONE]") break;
    auto parsed = json::parse(event);
    for (const auto& choice : parsed["choices"]) ends += choice["finish_reason"] == "stop" ? 1 : 0;
  }
  CHECK(ends == 2);
  auto plain = client.post("/v1/chat/completions", chat_body("words=2", {{"stream", true}}));
  for (const auto& event : plain.events()) CHECK((event == "[DONE]" || !json::parse(event).contains("usage")));
  CHECK(streamed_text(plain) == " w0 w1");
}

TEST_CASE("log-probabilities") {
  RunningGateway running;
  TestClient client(running.port());
  json more = {{"logprobs", true}, {"top_logprobs", 1}};
  auto content = client.post("/v1/chat/completions", chat_body("h\xc3\xa9", more)).json()["choices"][0]["logprobs"]["content"];
  REQUIRE(content.size() == 1);
  CHECK(content[0]["token"] == "h\xc3\xa9");
  CHECK(content[0]["bytes"] == json({104, 195, 169}));
  CHECK(content[0]["logprob"] == -0.5);
  CHECK(content[0]["top_logprobs"][0]["token"] == "other");
  more["stream"] = true;
  auto events = client.post("/v1/chat/completions", chat_body("x", more)).events();
  CHECK(json::parse(events[1])["choices"][0]["logprobs"]["content"][0]["token"] == "x");
}

TEST_CASE("text survives the hand-written JSON") {
  RunningGateway running;
  TestClient client(running.port());
  std::string text = "quote \" backslash \\ newline \n tab \t bell \x07 null";
  text += std::string(1, '\x1f') + " \xf0\x9f\x98\x80";
  CHECK(streamed_text(client.post("/v1/chat/completions", chat_body(text, {{"stream", true}}))) == text);
  CHECK(client.post("/v1/chat/completions", chat_body(text)).json()["choices"][0]["message"]["content"] == text);
}

TEST_CASE("failures of the engine") {
  RunningGateway running;
  TestClient client(running.port());
  for (bool stream : {false, true}) {
    auto refused = client.post("/v1/chat/completions", chat_body("refuse", {{"stream", stream}}));
    CHECK(refused.status == 429);
    CHECK(refused.headers["retry-after"] == "2");
    CHECK(refused.json()["error"]["code"] == "queue_full");
    auto too_long = client.post("/v1/chat/completions", chat_body("lost", {{"stream", stream}}));
    CHECK(too_long.status == 400);
    CHECK(too_long.json()["error"]["code"] == "context_length_exceeded");
  }
  CHECK(client.post("/v1/chat/completions", chat_body("fail")).status == 500);
  auto events = client.post("/v1/chat/completions", chat_body("fail", {{"stream", true}})).events();
  REQUIRE(events.size() >= 2);
  CHECK(events.back() == "[DONE]");
  CHECK(json::parse(events[events.size() - 2])["error"]["code"] == "compute_fault");
  CHECK(client.get("/health").status == 200);
}

TEST_CASE("faulty requests leave the connection usable") {
  RunningGateway running;
  TestClient client(running.port());
  for (const char* body : {"{", "[]", "{}", "{\"messages\":\"hi\"}", "{\"prompt\":\"\xC4\xE3\"}"})
    CHECK(client.post("/v1/chat/completions", body).status == 400);
  auto unknown = client.post("/v1/chat/completions", R"({"model":"nobody","messages":[{"role":"user","content":"x"}]})");
  CHECK(unknown.status == 404);
  CHECK(unknown.json()["error"]["code"] == "model_not_found");
  CHECK(client.post("/v1/chat/completions", chat_body("words=1")).status == 200);
  CHECK(running.engine.submitted().size() == 1);
}

TEST_CASE("a client that leaves cancels its request") {
  RunningGateway running;
  for (bool stream : {false, true}) {
    TestClient client(running.port());
    auto before = running.engine.silent_cancels().size();
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ");
    auto body = chat_body("hang", {{"stream", stream}});
    client.send(std::to_string(body.size()) + "\r\n\r\n" + body);
    CHECK(eventually([&] { return running.engine.submitted().size() == before + 1; }));
    client.close();
    CHECK(eventually([&] { return running.engine.silent_cancels().size() == before + 1; }));
  }
}

TEST_CASE("a reader that stops holds a bounded number of events and is cut") {
  GatewayOptions options;
  options.limits.stall_ms = 300;
  RunningGateway running(options);
  TestClient client(running.port());
  auto body = chat_body("words=100000000", {{"stream", true}});
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 1; }));
}

TEST_CASE("comments keep a silent stream alive") {
  GatewayOptions options;
  options.limits.sse_ping_ms = 100;
  RunningGateway running(options);
  TestClient client(running.port());
  auto body = chat_body("hang", {{"stream", true}});
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  client.read_until(": ping\n\n");
  SUCCEED();
}

TEST_CASE("the gateway's own bound on requests") {
  GatewayOptions options;
  options.limits.requests = 1;
  RunningGateway running(options);
  TestClient first(running.port());
  auto body = chat_body("hang", {{"stream", true}});
  first.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  first.read_until("\r\n\r\n");
  TestClient second(running.port());
  auto refused = second.post("/v1/chat/completions", chat_body("x"));
  CHECK(refused.status == 429);
  CHECK(refused.headers["retry-after"] == "1");
  first.close();
  CHECK(eventually([&] { return second.post("/v1/chat/completions", chat_body("x")).status == 200; }));
}

TEST_CASE("before the model is loaded") {
  RunningGateway running({}, false);
  TestClient client(running.port());
  CHECK(client.get("/health").status == 200);
  CHECK(client.get("/").status == 200);
  auto ready = client.get("/ready");
  CHECK(ready.status == 503);
  CHECK(ready.json()["status"] == "loading");
  for (auto answer : {client.get("/v1/models"), client.post("/v1/chat/completions", chat_body("x")), client.upgrade("/v1/responses")}) {
    CHECK(answer.status == 503);
    CHECK(answer.headers["retry-after"] == "1");
    CHECK(answer.json()["error"]["code"] == "model_loading");
  }
  running.gateway.set_directory(FakeEngine::directory("late", 0));  // known, but nobody serves it
  CHECK(client.post("/v1/chat/completions", chat_body("x")).status == 503);
  running.gateway.set_directory(FakeEngine::directory("late", 1));
  CHECK(eventually([&] { return client.get("/ready").status == 200; }));
  CHECK(client.get("/v1/models").json()["data"][0]["id"] == "late");
  CHECK(client.get("/v1/models").json()["data"][0]["created"] > 1'700'000'000);
  CHECK(client.get("/v1/models/late").json()["max_model_len"] == 2048);
  CHECK(client.get("/v1/models/l%61te").status == 200);
  CHECK(client.get("/v1/models/other").status == 404);
}

TEST_CASE("routes, methods and assets") {
  RunningGateway running;
  TestClient client(running.port());
  auto page = client.get("/?x=1");
  CHECK(page.status == 200);
  CHECK(page.headers["content-type"] == "text/html; charset=utf-8");
  CHECK(page.headers["content-security-policy"].find("default-src 'none'") == 0);
  for (const char* id : {"\"prompt\"", "\"send\"", "\"stop\"", "\"messages\"", "\"status\""})
    CHECK(page.body.find(std::string("id=") + id) != std::string::npos);
  CHECK(page.body.find("http://") == std::string::npos);
  CHECK(client.get("/app.js").headers["content-type"] == "text/javascript; charset=utf-8");
  CHECK(client.get("/style.css").body.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(client.get("/nothing").status == 404);
  auto wrong = client.get("/v1/chat/completions");
  CHECK(wrong.status == 405);
  CHECK(wrong.headers["allow"] == "POST");
  CHECK(client.post("/v1/models", "{}").headers["allow"] == "GET, HEAD");
  client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(client.read_answer(true).headers["content-length"] == "15");
  auto metrics = client.get("/metrics");
  CHECK(metrics.body.find("troupe:http_requests_total{route=\"/style.css\",status=\"200\"} 1") != std::string::npos);
  CHECK(metrics.body.find("troupe:http_connections 1") != std::string::npos);
}

TEST_CASE("keys guard every route but the page and the probes") {
  GatewayOptions options;
  options.keys.api = {base::hash_text("sesame")};
  RunningGateway running(options);
  TestClient client(running.port());
  for (const char* path : {"/", "/app.js", "/style.css", "/health", "/ready"}) CHECK(client.get(path).status == 200);
  CHECK(client.get("/ready").json()["key_needed"] == true);
  for (const char* path : {"/metrics", "/v1/models", "/v1/models/tiny", "/v1/responses", "/nothing", "/v1/chat/completions"}) {
    auto answer = client.get(path);
    CHECK(answer.status == 401);
    CHECK(answer.headers["www-authenticate"] == "Bearer");
    CHECK(answer.json()["error"]["code"] == "invalid_api_key");
    CHECK(client.get(path, "Authorization: Bearer wrong\r\n").status == 401);
  }
  CHECK(client.post("/v1/chat/completions", chat_body("x")).status == 401);
  std::string key = "Authorization: Bearer sesame\r\n";
  CHECK(client.get("/v1/models", key).status == 200);
  CHECK(client.get("/metrics", key).status == 200);
  CHECK(client.post("/v1/chat/completions", chat_body("x"), key).status == 200);
  auto owner = running.engine.submitted()[0]->getOwner();
  CHECK((owner.getHigh() != 0 || owner.getLow() != 0));
  CHECK(client.upgrade("/v1/responses").status == 401);
  auto upgraded = client.upgrade("/v1/responses", "Sec-WebSocket-Protocol: troupe.v1, openai-insecure-api-key.sesame\r\n");
  CHECK(upgraded.status == 101);
  CHECK(upgraded.headers["sec-websocket-protocol"] == "troupe.v1");
}

TEST_CASE("origins and hosts") {
  GatewayOptions options;
  options.allowed_origins = {"https://app.example"};
  RunningGateway running(options);
  TestClient client(running.port());
  CHECK(client.get("/v1/models", "Origin: http://localhost\r\n").status == 200);
  CHECK(client.get("/v1/models", "Origin: http://evil.example\r\n").status == 403);
  CHECK(client.upgrade("/v1/responses", "Origin: http://evil.example\r\n").status == 403);
  auto allowed = client.get("/v1/models", "Origin: https://app.example\r\n");
  CHECK(allowed.headers["access-control-allow-origin"] == "https://app.example");
  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\r\n");
  CHECK(client.read_answer().status == 204);
  client.send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  auto rebound = client.read_answer();
  CHECK(rebound.status == 403);
  CHECK(rebound.json()["error"]["code"] == "host_not_allowed");
}

TEST_CASE("listening errors say what to do") {
  RunningGateway running;
  GatewayOptions options;
  options.port = running.port();
  base::Metrics metrics;
  Gateway second(options, metrics);
  auto taken = second.listen();
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().reason == ErrorReason::kAddressInUse);
  options.hosts = {"not an address"};
  Gateway third(options, metrics);
  CHECK(third.listen().error().reason == ErrorReason::kBadConfig);
}

TEST_CASE("IPv6") {
  GatewayOptions options;
  options.hosts = {"::1"};
  RunningGateway running(options);
  CHECK(running.gateway.url().find("http://[::1]:") == 0);
  TestClient client(running.port(), "::1");
  CHECK(client.get("/v1/models").status == 200);
}

TEST_CASE("a drain lets streams end, refuses new work, and cuts what does not end") {
  RunningGateway running;
  TestClient slow(running.port());
  TestClient idle(running.port());
  auto body = chat_body("hang", {{"stream", true}});
  slow.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  slow.read_until("\r\n\r\n");
  running.gateway.drain(std::chrono::milliseconds(600));
  CHECK(idle.closed());
  TestClient late(running.port());
  auto refused = late.post("/v1/chat/completions", chat_body("x"));
  CHECK(refused.status == 503);
  CHECK(refused.headers["connection"] == "close");
  CHECK(refused.json()["error"]["code"] == "server_draining");
  CHECK(TestClient(running.port()).get("/health").status == 200);
  auto ended = slow.read_answer();
  CHECK(ended.events().back() == "[DONE]");
  CHECK(json::parse(ended.events().front())["error"]["code"] == "server_draining");
  running.join();
  CHECK(running.cut == 1);
}
