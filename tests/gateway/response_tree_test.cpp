// The session tree of stored responses against a fake engine: listed, pinned, measured, scored; and what outlives the gateway's memory.
#include "runtime/base/hash.h"
#include "tests/gateway/response_events.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

const std::string kAlpha = "Authorization: Bearer alpha\r\n";
const std::string kBeta = "Authorization: Bearer beta\r\n";

GatewayOptions two_keys() {
  GatewayOptions options;
  options.keys = {{base::hash_text("alpha"), base::hash_text("beta")}, {}};
  return options;
}

std::string stored(RunningGateway& running) {
  TestClient client(running.port());
  auto answer = client.post("/v1/responses", json{{"input", "words=2"}}.dump(), kAlpha);
  REQUIRE(answer.status == 200);
  return answer.json()["id"];
}

TestAnswer ask(RunningGateway& running, const std::string& method, const std::string& path, const std::string& key = kAlpha) {
  TestClient client(running.port());
  client.send_request(method, path, "", key);
  return client.read_answer();
}

TestAnswer post(RunningGateway& running, const std::string& path, const json& body, const std::string& key = kAlpha) {
  TestClient client(running.port());
  return client.post(path, body.dump(), key);
}

std::string path(const std::string& id, const std::string& rest = {}) { return "/v1/responses/" + id + rest; }

}  // namespace

TEST_CASE("stored responses are listed in pages, to their owner") {
  RunningGateway running(two_keys());
  CHECK(ask(running, "GET", "/v1/responses").json() ==
        json{{"object", "list"}, {"first_id", nullptr}, {"last_id", nullptr}, {"has_more", false}, {"data", json::array()}});
  std::vector<std::string> ids{stored(running), stored(running), stored(running)};
  std::sort(ids.begin(), ids.end());
  auto first = ask(running, "GET", "/v1/responses?limit=2").json();
  CHECK(first["has_more"] == true);
  CHECK(first["data"].size() == 2);
  CHECK(first["data"][0] == json{{"id", ids[0]},
                                 {"object", "response.node"},
                                 {"previous_response_id", nullptr},
                                 {"path_tokens", 40},
                                 {"own_tokens", 8},
                                 {"ttl_seconds_left", 0},
                                 {"pin_seconds_left", 0},
                                 {"stored", "memory"}});
  CHECK(first["data"][1]["previous_response_id"] == ids[0]);
  auto second = ask(running, "GET", "/v1/responses?limit=2&after=" + first["last_id"].get<std::string>()).json();
  CHECK(second["has_more"] == false);
  CHECK(second["data"][0]["id"] == ids[2]);
  CHECK(ask(running, "GET", "/v1/responses", kBeta).json()["data"].empty());
  CHECK(ask(running, "GET", "/v1/responses?limit=0").status == 400);
  CHECK(ask(running, "GET", "/v1/responses", "").status == 401);
}

TEST_CASE("a path is pinned and measured by its owner") {
  RunningGateway running(two_keys());
  auto id = stored(running);
  auto pinned = post(running, path(id, "/pin"), {{"ttl_seconds", 60}});
  CHECK(pinned.json() == json{{"id", id},
                              {"object", "response.pin"},
                              {"pinned", true},
                              {"ttl_seconds", 60},
                              {"path_tokens", 40},
                              {"memory", {{"device", 32}, {"host", 0}, {"disk", 0}, {"computed", 8}}}});
  CHECK(post(running, path(id, "/pin"), {{"ttl_seconds", 0}}).json()["pinned"] == false);
  auto memory = ask(running, "GET", path(id, "/memory")).json();
  CHECK(memory["tokens"] == json{{"device", 32}, {"host", 0}, {"disk", 0}, {"computed", 8}});
  CHECK(memory["bytes"] == 1000);
  for (const auto& answer : {post(running, path(id, "/pin"), {{"ttl_seconds", 60}}, kBeta), ask(running, "GET", path(id, "/memory"), kBeta),
                             ask(running, "GET", path("resp_nobody", "/memory"))}) {
    CHECK(answer.status == 404);
    CHECK(json::parse(answer.body)["error"]["code"] == "response_not_found");
  }
  for (const json& bad : {json::object(), json{{"ttl_seconds", -1}}, json{{"ttl_seconds", "60"}}}) {
    auto refused = post(running, path(id, "/pin"), bad);
    CHECK(refused.status == 400);
    CHECK(refused.json()["error"]["param"] == "ttl_seconds");
  }
}

TEST_CASE("continuations are scored behind a response") {
  RunningGateway running(two_keys());
  auto id = stored(running);
  auto answer = post(running, path(id, "/score"), {{"continuations", {"cd", {12, 13}}}, {"cache_salt", "s"}});
  REQUIRE(answer.status == 200);
  auto scores = answer.json()["scores"];
  REQUIRE(scores.size() == 2);
  CHECK(scores[1] ==
        json{{"index", 1}, {"logprob", -2.0}, {"tokens", {12, 13}}, {"token_logprobs", {-0.5, -1.5}}, {"token_strs", {"c", "d"}}});
  CHECK(answer.json()["usage"]["input_tokens"] == 8);
  auto submitted = running.engine.submitted();
  REQUIRE(submitted.size() == 3);
  CHECK(submitted[1]->getScoreContinuation());
  CHECK(submitted[1]->getMaxTokens() == 0);
  CHECK(submitted[1]->getDeadlineMs() == 0);
  CHECK(submitted[1]->getPriority() == 0);
  CHECK(submitted[1]->getPreviousResponseId() == id);
  CHECK(submitted[1]->getCacheSalt() == "s");
  CHECK(submitted[1]->getInput().getText() == "cd");
  CHECK(submitted[2]->getInput().getTokens().size() == 2);
  CHECK(submitted[1]->getSampling().getTopLogprobs() == 0);
  auto missing = post(running, path("nobody", "/score"), {{"continuations", {"x", "y"}}});
  CHECK(missing.status == 404);
  CHECK(missing.json()["error"]["code"] == "response_not_found");
  for (const json& bad :
       {json::object(), json{{"continuations", json::array()}}, json{{"continuations", {""}}}, json{{"continuations", {json::array()}}},
        json{{"continuations", {{-1}}}}, json{{"continuations", "x"}}, json{{"continuations", std::vector<std::string>(129, "x")}}})
    CHECK(post(running, path(id, "/score"), bad).status == 400);
}

TEST_CASE("a response that the gateway let go is found in the session store") {
  GatewayOptions options = two_keys();
  options.limits.response_bytes = 1;  // each pushes out the one before
  RunningGateway running(options);
  auto id = stored(running);
  stored(running);
  auto found = ask(running, "GET", path(id)).json();
  CHECK(text_of_response(found) == "as it was");
  CHECK(found["created_at"] == 77);
  CHECK(found["status"] == "incomplete");
  CHECK(found["usage"]["input_tokens"] == 3);
  CHECK(found["usage"]["output_tokens"] == 2);
  CHECK(ask(running, "GET", path(id), kBeta).status == 404);
  CHECK(ask(running, "GET", path(id, "?stream=true")).status == 404);
  auto deleted = ask(running, "DELETE", path(id, "?subtree=true")).json();
  CHECK(deleted["deleted"] == true);
  CHECK(ask(running, "GET", path(id)).status == 404);
}

TEST_CASE("what is to be kept on disk is asked of the engine so") {
  for (const bool durable : {false, true}) {
    GatewayOptions options;
    options.durable_responses = durable;
    RunningGateway running(options);
    TestClient client(running.port());
    client.post("/v1/responses", json{{"input", "x"}}.dump());
    client.post("/v1/responses", json{{"input", "x"}, {"store", false}}.dump());
    auto submitted = running.engine.submitted();
    CHECK(submitted[0]->getRetention() == (durable ? messages::Retention::DISK : messages::Retention::MEMORY));
    CHECK(submitted[1]->getRetention() == messages::Retention::CONNECTION);
  }
}
