// AccessRules: keys, origins, hosts.
#include "gateway/access.h"

#include "messages/error_reasons.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;

namespace {

HttpRequest with(std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

}  // namespace

TEST_CASE("keys") {
  AccessRules rules({"alpha", "beta"}, {}, {}, "127.0.0.1");
  auto alpha = rules.check_key(with({{"authorization", "Bearer alpha"}}));
  auto beta = rules.check_key(with({{"authorization", "bearer  beta "}}));
  REQUIRE(alpha.ok());
  REQUIRE(beta.ok());
  CHECK(alpha->owner != beta->owner);
  auto socket = rules.check_key(with({{"sec-websocket-protocol", "troupe.v1, openai-insecure-api-key.alpha"}}));
  REQUIRE(socket.ok());
  CHECK(socket->owner == alpha->owner);
  for (const auto& request :
       {with({}), with({{"authorization", "Bearer "}}), with({{"authorization", "Bearer alph"}}),
        with({{"authorization", "Bearer alphaa"}}), with({{"authorization", "Basic alpha"}}), with({{"authorization", "alpha"}}),
        with({{"sec-websocket-protocol", "openai-insecure-api-key."}}), with({{"x-api-key", "alpha"}})}) {
    auto refused = rules.check_key(request);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().reason == ErrorReason::kInvalidKey);
  }
  CHECK(AccessRules({}, {}, {}, "127.0.0.1").check_key(with({})).ok());
}

TEST_CASE("origins") {
  AccessRules rules({}, {"https://app.example"}, {}, "0.0.0.0");
  CHECK_FALSE(rules.check_origin(with({{"host", "h:1"}})));
  CHECK_FALSE(rules.check_origin(with({{"host", "h:1"}, {"origin", "http://h:1"}})));
  CHECK_FALSE(rules.check_origin(with({{"host", "h:1"}, {"origin", "https://APP.example"}})));
  for (const char* origin : {"http://h", "http://h:2", "http://evil.example", "null", "", "http://h:1.evil.example", "h:1"})
    CHECK(rules.check_origin(with({{"host", "h:1"}, {"origin", origin}})));
  CHECK(rules.check_origin(with({{"host", "h:1"}, {"origin", "http://h:1"}, {"origin", "http://h:1"}})));
  CHECK(rules.cors_headers(with({{"origin", "https://app.example"}})).find("https://app.example") != std::string::npos);
  CHECK(rules.cors_headers(with({{"host", "h"}, {"origin", "http://h"}})).empty());
  CHECK_FALSE(AccessRules({}, {"*"}, {}, "0.0.0.0").check_origin(with({{"host", "h"}, {"origin", "http://any"}})));
}

TEST_CASE("a loopback listener answers to local names only") {
  AccessRules rules({}, {}, {"dev.local"}, "127.0.0.1");
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1:1", "[::1]:80", "[::1]", "dev.local:3"})
    CHECK_FALSE(rules.check_host(with({{"host", host}})));
  for (const char* host : {"evil.example", "localhost.evil.example", "127.evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "[::2]"})
    CHECK(rules.check_host(with({{"host", host}})));
  CHECK_FALSE(AccessRules({}, {}, {}, "0.0.0.0").check_host(with({{"host", "any.example"}})));
  CHECK(AccessRules({}, {}, {}, "::1").check_host(with({{"host", "any.example"}})));
}

TEST_CASE("subprotocols") {
  CHECK(choose_subprotocol(with({{"sec-websocket-protocol", "x, troupe.v1"}})) == "troupe.v1");
  CHECK(choose_subprotocol(with({{"sec-websocket-protocol", "realtime"}})) == "realtime");
  CHECK(choose_subprotocol(with({{"sec-websocket-protocol", "openai-insecure-api-key.k"}})).empty());
}
