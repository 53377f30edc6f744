// Keys over the whole route table, key reload, metrics-open, and CORS, on a running gateway.
#include "gateway/routes.h"
#include "runtime/base/hash.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

#include <set>

using namespace troupe;
using namespace troupe::gateway;

namespace {

const std::string kUser = "Authorization: Bearer user\r\n", kAdminKey = "Authorization: Bearer root\r\n";

GatewayOptions with_keys() {
  GatewayOptions options;
  options.keys = {{base::hash_text("user")}, {base::hash_text("root")}};
  return options;
}

// A URL of the route; a prefix gets an ending.
std::string url_of(const Route& route) {
  std::string path(route.path);
  if (path.back() == '*') path.replace(path.size() - 1, 1, "anything");
  return path;
}

TestAnswer ask(TestClient& client, std::string_view method, const std::string& path, const std::string& headers = {}) {
  client.send(std::string(method) + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n" + headers + "\r\n{}");
  return client.read_answer(method == "HEAD");
}

}  // namespace

// R82: a key guarded some prefixes only, and tokenize, metrics and control routes stayed open.
TEST_CASE("with keys set every route needs one, but the page and the probes") {
  const std::set<std::string_view> open = {"/", "/app.js", "/style.css", "/health", "/ready"};
  RunningGateway running(with_keys());
  for (const auto& route : route_table()) {
    INFO(route.method << " " << route.path);
    TestClient client(running.port());
    CHECK((route.guard == Guard::kOpen) == open.contains(route.path));
    const auto status = ask(client, route.method, url_of(route)).status;
    if (route.guard == Guard::kOpen) {
      CHECK(status == 200);
      continue;
    }
    CHECK(status == 401);
    for (const char* headers : {"Authorization: Bearer wrong\r\n", "Authorization: Basic user\r\n", "Authorization: Bearer\r\n",
                                "X-Api-Key: user\r\n", "Sec-WebSocket-Protocol: openai-insecure-api-key.wrong\r\n"}) {
      TestClient other(running.port());
      auto answer = ask(other, route.method, url_of(route), headers);
      CHECK(answer.status == 401);
      CHECK(answer.headers["www-authenticate"] == "Bearer");
      CHECK(answer.json()["error"]["code"] == "invalid_api_key");
      CHECK(answer.json()["error"]["type"] == "authentication_error");
      CHECK(answer.json()["error"].contains("param"));
    }
    TestClient user(running.port());
    const auto allowed = ask(user, route.method, url_of(route), kUser).status;
    if (route.guard == Guard::kAdmin) {
      CHECK(allowed == 403);
      TestClient admin(running.port());
      const bool endless = route.response == "text/event-stream";
      const auto as_admin = ask(admin, endless ? "HEAD" : route.method, url_of(route), kAdminKey).status;
      CHECK((as_admin != 401 && as_admin != 403));
    } else {
      CHECK((allowed != 401 && allowed != 403));
    }
  }
  // What no route serves is not told without a key either.
  for (const char* path : {"/v2/models", "/pause", "/v1", "/v1/", "//", "/health/", "/%2e", "/metrics/x"})
    CHECK(TestClient(running.port()).get(path).status == 401);
  CHECK(TestClient(running.port()).get("/v2/models", kUser).status == 404);
}

TEST_CASE("without admin keys an admin route is closed, with the reason") {
  RunningGateway running;
  for (const auto& route : route_table()) {
    if (route.guard != Guard::kAdmin) continue;
    TestClient client(running.port());
    auto answer = ask(client, route.method, url_of(route));
    CHECK(answer.status == 403);
    CHECK(answer.json()["error"]["code"] == "admin_key_needed");
  }
}

TEST_CASE("--metrics-open opens the metrics alone") {
  auto options = with_keys();
  options.metrics_open = true;
  RunningGateway running(options);
  CHECK(TestClient(running.port()).get("/metrics").status == 200);
  CHECK(TestClient(running.port()).get("/v1/models").status == 401);
}

TEST_CASE("new keys count at once, on open connections too") {
  RunningGateway running(with_keys());
  TestClient client(running.port());
  CHECK(client.get("/v1/models", kUser).status == 200);
  running.gateway.set_keys({{base::hash_text("fresh")}, {}});
  CHECK(eventually([&] { return client.get("/v1/models", kUser).status == 401; }));
  CHECK(client.get("/v1/models", "Authorization: Bearer fresh\r\n").status == 200);
}

TEST_CASE("of a stranger no long body is read, and no continue is said") {
  RunningGateway running(with_keys());
  auto head = [](std::size_t length, const std::string& headers) {
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(length) + "\r\n" + headers + "\r\n";
  };
  TestClient stranger(running.port());
  stranger.send(head(1 << 20, "") + std::string(200 << 10, ' '));
  auto answer = stranger.read_answer();
  CHECK(answer.status == 401);
  CHECK(answer.headers["connection"] == "close");
  TestClient asking(running.port());
  asking.send(head(2, "Expect: 100-continue\r\n"));
  CHECK(asking.read_answer().status == 401);
  TestClient friendly(running.port());  // who has a key is read to the end, and stays
  friendly.send(head(200 << 10, kUser) + std::string(200 << 10, ' '));
  CHECK(friendly.read_answer().status == 400);
  CHECK(friendly.get("/v1/models", kUser).status == 200);
}

TEST_CASE("connections that together hold too much are cut, the largest first") {
  GatewayOptions options;
  options.limits.held = 1 << 20;
  RunningGateway running(options);
  auto upload = [&](std::size_t bytes) {
    auto client = std::make_unique<TestClient>(running.port());
    client->send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n" + std::string(bytes, ' '));
    return client;
  };
  auto small = upload(100 << 10), large = upload(1 << 20);
  CHECK(large->closed());
  small->send(std::string(2000000 - (100 << 10), ' '));
  CHECK(small->read_answer().status == 400);
}

TEST_CASE("several addresses, one port") {
  GatewayOptions options;
  options.hosts = {"127.0.0.1", "::1"};
  RunningGateway running(options);
  CHECK(TestClient(running.port(), "127.0.0.1").get("/health").status == 200);
  TestClient six(running.port(), "::1");
  for (const char* host : {"[::1]", "[::1]:8080", "localhost"}) {
    six.send(std::string("GET /health HTTP/1.1\r\nHost: ") + host + "\r\n\r\n");
    CHECK(six.read_answer().status == 200);
  }
  six.send("GET /health HTTP/1.1\r\nHost: [::2]\r\n\r\n");
  CHECK(six.read_answer().status == 403);
}

TEST_CASE("pages of other origins get nothing: not an answer, not a WebSocket, not a preflight") {
  GatewayOptions options;
  options.allowed_origins = {"https://app.example", "http://dev.example:3000"};
  RunningGateway running(options);
  const auto host = "localhost:" + std::to_string(running.port());
  const auto ask_as = [&](const std::string& method, const std::string& path, const std::string& origin) {
    TestClient client(running.port());
    client.send(method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\nOrigin: " + origin + "\r\n\r\n");
    return client.read_answer(method == "HEAD");
  };
  for (const std::string& origin :
       {std::string("null"), std::string("http://evil.example"), std::string("https://app.example.evil.example"),
        std::string("https://evilapp.example"), std::string("http://app.example"), std::string("https://app.example:8443"),
        std::string("https://app.example/"), "https://" + host + ".evil", std::string("http://localhost:1"),
        std::string("http://dev.example"), std::string("file://"), std::string("*"), "http://" + host + ", https://app.example",
        std::string("http://\xff")}) {
    INFO(origin);
    for (const auto& [method, path] : {std::pair{"GET", "/v1/models"},
                                       {"POST", "/v1/chat/completions"},
                                       {"OPTIONS", "/v1/chat/completions"},
                                       {"HEAD", "/health"},
                                       {"GET", "/"}}) {
      auto answer = ask_as(method, path, origin);
      CHECK(answer.status == 403);
      CHECK_FALSE(answer.headers.contains("access-control-allow-origin"));
    }
    CHECK(TestClient(running.port()).upgrade("/v1/responses", "Origin: " + origin + "\r\n").status == 403);
  }
  for (const std::string& origin :
       {std::string("https://app.example"), std::string("HTTPS://App.Example"), std::string("http://dev.example:3000")}) {
    auto preflight = ask_as("OPTIONS", "/v1/chat/completions", origin);
    CHECK(preflight.status == 204);
    CHECK(preflight.headers["access-control-allow-origin"] == origin);
    CHECK(preflight.headers["access-control-allow-methods"] == "POST");
    CHECK(preflight.headers["access-control-allow-headers"].find("Authorization") != std::string::npos);
    CHECK(preflight.headers["vary"] == "Origin");
    CHECK_FALSE(preflight.headers.contains("access-control-allow-credentials"));
    auto answer = ask_as("GET", "/v1/models", origin);
    CHECK(answer.status == 200);
    CHECK(answer.headers["access-control-allow-origin"] == origin);
    CHECK(answer.headers["access-control-expose-headers"].find("X-Request-Id") != std::string::npos);
    CHECK(TestClient(running.port()).upgrade("/v1/responses", "Origin: " + origin + "\r\n").status == 101);
  }
  CHECK(ask_as("GET", "/v1/models", "http://" + host).status == 200);  // our own page
}

TEST_CASE("a preflight needs no key, and tells nothing about keys") {
  auto options = with_keys();
  options.allowed_origins = {"https://app.example"};
  RunningGateway running(options);
  TestClient client(running.port());
  CHECK(ask(client, "OPTIONS", "/v1/chat/completions", "Origin: https://app.example\r\n").status == 204);
  CHECK(ask(client, "POST", "/v1/chat/completions", "Origin: https://app.example\r\n").status == 401);
  CHECK(ask(client, "POST", "/v1/chat/completions", "Origin: https://app.example\r\n").headers["access-control-allow-origin"] ==
        "https://app.example");
}
