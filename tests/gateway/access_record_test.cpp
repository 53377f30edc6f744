// Request ids and the lines of the access log.
#include "gateway/access_record.h"
#include "gateway/routes.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

#include <set>

using namespace troupe;
using namespace troupe::gateway;

namespace {

std::string given(const std::vector<std::string>& values) {
  HttpRequest request;
  for (const auto& value : values) request.headers.emplace_back("x-request-id", value);
  return std::string(given_request_id(request));
}

}  // namespace

TEST_CASE("a client's request id is taken if it is sane") {
  CHECK(given({"abc-DEF_0.9"}) == "abc-DEF_0.9");
  CHECK(given({std::string(128, 'x')}).size() == 128);
  for (const std::string& odd : {std::string(), std::string(129, 'x'), std::string("a b"), std::string("a\"b"), std::string("a=b"),
                                 std::string("caf\xc3\xa9"), std::string("a/b"), std::string("a\tb")})
    CHECK(given({odd}).empty());
  CHECK(given({"one", "two"}).empty());
  CHECK(given({}).empty());
}

TEST_CASE("ids that the server makes differ and are sane") {
  RequestIds ids, others;
  std::set<std::string> seen;
  for (int i = 0; i < 1000; i++) {
    seen.insert(ids.next());
    seen.insert(others.next());
  }
  CHECK(seen.size() == 2000);
  for (const auto& id : seen) REQUIRE(given({id}) == id);
}

TEST_CASE("the line of a request") {
  AccessRecord record;
  record.id = "req_1";
  record.method = "POST";
  record.route = "/v1/chat/completions";
  record.peer = "::1";
  record.key = "00c0ffee";
  record.status = 200;
  record.bytes = 1234;
  record.ms = 5.25;
  CHECK(log_fields(record) ==
        "id=\"req_1\" method=POST route=/v1/chat/completions status=200 bytes=1234 ms=5.2 end=whole key=\"00c0ffee\" peer=\"::1\"");
  record = {};
  record.ending = AccessRecord::Ending::kSlowReader;
  CHECK(log_fields(record) == "id=\"\" method=none route=none status=0 bytes=0 ms=0.0 end=slow_reader peer=\"\"");
}

TEST_CASE("every answer has an x-request-id: of routes, of errors, of the protocol's own refusals, of an upgrade, of a stream") {
  RunningGateway running;
  TestClient client(running.port());
  std::set<std::string> seen;
  for (const char* path : {"/", "/health", "/ready", "/metrics", "/v1/models", "/nothing"})
    seen.insert(client.get(path).headers["x-request-id"]);
  client.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  seen.insert(client.read_answer().headers["x-request-id"]);
  seen.insert(client.post("/v1/chat/completions", "not json").headers["x-request-id"]);
  const std::string chat = R"({"model":"tiny","stream":true,"messages":[{"role":"user","content":"words=3"}]})";
  seen.insert(client.post("/v1/chat/completions", chat).headers["x-request-id"]);
  TestClient broken(running.port());
  broken.send("NONSENSE\r\n\r\n");
  seen.insert(broken.read_answer().headers["x-request-id"]);
  TestClient socket(running.port());
  seen.insert(socket.upgrade("/v1/responses").headers["x-request-id"]);
  TestClient oversized(running.port());
  oversized.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine-0\r\nContent-Length: 99999999\r\n\r\n");
  const auto refused = oversized.read_answer();
  CHECK(refused.status == 413);
  CHECK(refused.headers.at("x-request-id") == "mine-0");
  CHECK(seen.size() == 11);
  CHECK_FALSE(seen.contains(""));
  CHECK(client.get("/health", "X-Request-Id: mine-1\r\n").headers["x-request-id"] == "mine-1");
  CHECK(client.post("/v1/chat/completions", chat, "X-Request-Id: mine-2\r\n").headers["x-request-id"] == "mine-2");
  CHECK(client.get("/health", "X-Request-Id: a b\r\n").headers["x-request-id"].starts_with("req_"));
}
