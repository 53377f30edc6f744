// AccessRules: keys, origins, hosts.
#include "gateway/access.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;

namespace {

HttpRequest with(std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

KeySet keys(const std::vector<std::string>& api, const std::vector<std::string>& admin) {
  KeySet set;
  for (const auto& key : api) set.api.push_back(base::hash_text(key));
  for (const auto& key : admin) set.admin.push_back(base::hash_text(key));
  return set;
}

}  // namespace

TEST_CASE("keys") {
  AccessRules rules({.keys = keys({"alpha", "beta"}, {})});
  auto alpha = rules.check_key(with({{"authorization", "Bearer alpha"}}), Guard::kKey);
  auto beta = rules.check_key(with({{"authorization", "bearer  beta "}}), Guard::kKey);
  REQUIRE(alpha.ok());
  REQUIRE(beta.ok());
  CHECK(alpha->owner != beta->owner);
  auto socket = rules.check_key(with({{"sec-websocket-protocol", "troupe.v1, openai-insecure-api-key.alpha"}}), Guard::kKey);
  REQUIRE(socket.ok());
  CHECK(socket->owner == alpha->owner);
  for (const auto& request :
       {with({}), with({{"authorization", "Bearer "}}), with({{"authorization", "Bearer alph"}}),
        with({{"authorization", "Bearer alphaa"}}), with({{"authorization", "Basic alpha"}}), with({{"authorization", "alpha"}}),
        with({{"sec-websocket-protocol", "openai-insecure-api-key."}}), with({{"x-api-key", "alpha"}})}) {
    auto refused = rules.check_key(request, Guard::kKey);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().reason == ErrorReason::kInvalidKey);
  }
  CHECK(AccessRules({}).check_key(with({}), Guard::kKey).ok());
}

TEST_CASE("guards: what each kind of key opens") {
  struct Row {
    KeySet set;
    const char* key;
    Guard guard;
    ErrorReason refusal;  // kUnclassified: let in
  };
  constexpr auto kIn = ErrorReason::kUnclassified, kUnknown = ErrorReason::kInvalidKey, kNoAdmin = ErrorReason::kAdminKeyNeeded;
  const auto none = keys({}, {}), api = keys({"a"}, {}), both = keys({"a"}, {"root"}), admin = keys({}, {"root"});
  for (const Row& row :
       {Row{none, "", Guard::kOpen, kIn},        Row{none, "", Guard::kKey, kIn},         Row{none, "", Guard::kMetrics, kIn},
        Row{none, "", Guard::kAdmin, kNoAdmin},  Row{none, "x", Guard::kAdmin, kNoAdmin}, Row{api, "", Guard::kOpen, kIn},
        Row{api, "", Guard::kMetrics, kUnknown}, Row{api, "", Guard::kKey, kUnknown},     Row{api, "", Guard::kAdmin, kUnknown},
        Row{api, "a", Guard::kMetrics, kIn},     Row{api, "a", Guard::kKey, kIn},         Row{api, "a", Guard::kAdmin, kNoAdmin},
        Row{both, "a", Guard::kKey, kIn},        Row{both, "a", Guard::kAdmin, kNoAdmin}, Row{both, "root", Guard::kKey, kIn},
        Row{both, "root", Guard::kAdmin, kIn},   Row{both, "", Guard::kAdmin, kUnknown},  Row{both, "b", Guard::kAdmin, kUnknown},
        Row{admin, "", Guard::kKey, kIn},        Row{admin, "", Guard::kAdmin, kUnknown}, Row{admin, "root", Guard::kAdmin, kIn}}) {
    auto caller = AccessRules({.keys = row.set}).check_key(with({{"authorization", std::string("Bearer ") + row.key}}), row.guard);
    INFO("key '" << row.key << "' guard " << static_cast<int>(row.guard));
    CHECK((caller.ok() ? kIn : caller.error().reason) == row.refusal);
  }
  CHECK(AccessRules({.keys = api, .metrics_open = true}).check_key(with({}), Guard::kMetrics).ok());
  CHECK_FALSE(AccessRules({.keys = api, .metrics_open = true}).check_key(with({}), Guard::kKey).ok());
}

TEST_CASE("keys may change while the server runs") {
  AccessRules rules({.keys = keys({"old"}, {})});
  rules.set_keys(keys({"new"}, {}));
  CHECK_FALSE(rules.check_key(with({{"authorization", "Bearer old"}}), Guard::kKey).ok());
  CHECK(rules.check_key(with({{"authorization", "Bearer new"}}), Guard::kKey).ok());
}

TEST_CASE("origins") {
  AccessRules rules({.origins = {"https://app.example"}, .bound = {"0.0.0.0"}});
  CHECK_FALSE(rules.check_origin(with({{"host", "h:1"}})));
  CHECK_FALSE(rules.check_origin(with({{"host", "h:1"}, {"origin", "http://h:1"}})));
  CHECK_FALSE(rules.check_origin(with({{"host", "h:1"}, {"origin", "https://APP.example"}})));
  for (const char* origin : {"http://h", "http://h:2", "http://evil.example", "null", "", "http://h:1.evil.example", "h:1"})
    CHECK(rules.check_origin(with({{"host", "h:1"}, {"origin", origin}})));
  CHECK(rules.check_origin(with({{"host", "h:1"}, {"origin", "http://h:1"}, {"origin", "http://h:1"}})));
  CHECK(rules.cors_headers(with({{"origin", "https://app.example"}})).find("https://app.example") != std::string::npos);
  CHECK(rules.cors_headers(with({{"host", "h"}, {"origin", "http://h"}})).empty());
  CHECK_FALSE(AccessRules({.origins = {"*"}, .bound = {"0.0.0.0"}}).check_origin(with({{"host", "h"}, {"origin", "http://any"}})));
}

TEST_CASE("a loopback listener answers to local names only") {
  AccessRules rules({.hosts = {"dev.local"}, .bound = {"127.0.0.1", "::1"}});
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1:1", "[::1]:80", "[::1]", "dev.local:3"})
    CHECK_FALSE(rules.check_host(with({{"host", host}})));
  for (const char* host : {"evil.example", "localhost.evil.example", "127.evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "[::2]"})
    CHECK(rules.check_host(with({{"host", host}})));
  CHECK_FALSE(AccessRules({.bound = {"127.0.0.1", "0.0.0.0"}}).check_host(with({{"host", "any.example"}})));
  CHECK(AccessRules({.bound = {"::1"}}).check_host(with({{"host", "any.example"}})));
}

TEST_CASE("subprotocols") {
  CHECK(choose_subprotocol(with({{"sec-websocket-protocol", "x, troupe.v1"}})) == "troupe.v1");
  CHECK(choose_subprotocol(with({{"sec-websocket-protocol", "realtime"}})) == "realtime");
  CHECK(choose_subprotocol(with({{"sec-websocket-protocol", "openai-insecure-api-key.k"}})).empty());
}
