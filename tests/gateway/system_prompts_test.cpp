// System prompts that are kept in the cache, against a fake engine: warmed one by one, looked at again, put, replaced and deleted by the
// admin.
#include "gateway/prefix_call.h"
#include "runtime/base/hash.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

const std::string kAdmin = "Authorization: Bearer root\r\n";
// The fake has a token a byte, and 32 of each stored response on the device.
const std::string kShort(40, 's'), kOther(41, 'o'), kLong(70, 'l');

GatewayOptions with_prompts(SystemPrompts prompts) {
  GatewayOptions options;
  options.keys = {{}, {base::hash_text("root")}};
  options.system_prompts = std::move(prompts);
  return options;
}

TestAnswer ask(RunningGateway& running, const std::string& method, const std::string& path, const std::string& body = {}) {
  TestClient client(running.port());
  client.send_request(method, path, body, kAdmin);
  return client.read_answer();
}
TestAnswer put(RunningGateway& running, const json& body) { return ask(running, "POST", "/v1/system_prompts", body.dump()); }
json listed(RunningGateway& running) { return ask(running, "GET", "/v1/system_prompts").json()["data"]; }
bool all_are(RunningGateway& running, const std::string& status) {
  return eventually([&] {
    const auto data = listed(running);
    return std::all_of(data.begin(), data.end(), [&](const json& prompt) { return prompt["status"] == status; });
  });
}

/// Ids of the responses that were to be stored, in order.
std::vector<std::string> stored(RunningGateway& running) {
  std::vector<std::string> ids;
  for (const auto& request : running.engine.submitted())
    if (request->getResponseId().size() > 0) ids.emplace_back(request->getResponseId().cStr());
  return ids;
}

}  // namespace

TEST_CASE("the prefix of two lists of tokens") {
  CHECK(common_prefix({1, 2, 3}, {1, 2, 4, 5}) == std::vector<TokenId>{1, 2});
  CHECK(common_prefix({1, 2}, {1, 2, 3}) == std::vector<TokenId>{1, 2});
  CHECK(common_prefix({1, 2, 3}, {1, 2}) == std::vector<TokenId>{1, 2});
  CHECK(common_prefix({1}, {2}).empty());
  CHECK(common_prefix({}, {2}).empty());
}

TEST_CASE("prompts given at the start are prefilled one by one, without an answer, and pinned") {
  RunningGateway running(with_prompts({{"first", kShort}, {"second", kOther}}));
  REQUIRE(all_are(running, "warm"));
  const json memory = {{"device", 32}, {"host", 0}, {"disk", 0}, {"computed", 8}};
  const auto data = listed(running);
  REQUIRE(data.size() == 2);
  CHECK(data[0] ==
        json{{"name", "first"}, {"object", "system_prompt"}, {"tokens", 40}, {"status", "warm"}, {"memory", memory}, {"error", nullptr}});
  CHECK(data[1]["tokens"] == 41);
  const auto submitted = running.engine.submitted();
  REQUIRE(submitted.size() == 6);
  for (std::size_t i = 0; i < 6; i += 3) {
    CHECK(submitted[i]->getEndpoint() == messages::Endpoint::TOKENIZE);
    CHECK(submitted[i]->getInput().getItems()[0].getRole() == "system");
    CHECK(submitted[i + 1]->getEndpoint() == messages::Endpoint::TOKENIZE);
    CHECK(submitted[i + 2]->getInput().getTokens().size() == (i == 0 ? 40 : 41));
    CHECK(submitted[i + 2]->getMaxTokens() == 0);
    CHECK(submitted[i + 2]->getRetention() == messages::Retention::MEMORY);
  }
  CHECK(ask(running, "GET", "/v1/responses").json()["data"].empty());
}

TEST_CASE("nothing is prefilled before the model can be used") {
  RunningGateway running(with_prompts({{"first", kShort}}), false);
  CHECK(listed(running)[0]["status"] == "waiting");
  CHECK(listed(running)[0]["tokens"] == nullptr);
  CHECK(put(running, {{"name", "more"}, {"text", kOther}}).status == 503);
  CHECK(running.engine.submitted().empty());
  running.gateway.set_directory(FakeEngine::directory());
  CHECK(all_are(running, "warm"));
}

TEST_CASE("what the session store has lost is computed again; what the cache cannot hold is said") {
  RunningGateway running(with_prompts({{"first", kShort}, {"large", kLong}}));
  REQUIRE(eventually([&] { return listed(running)[0]["status"] == "warm" && listed(running)[1]["error"].is_string(); }));
  CHECK(listed(running)[1]["status"] == "waiting");  // of 64 tokens in whole blocks the fake holds 32
  const auto first = stored(running).at(0);
  running.engine.drop_response({}, first);
  running.gateway.set_directory(FakeEngine::directory());  // as after a restart
  const auto times = [&] {
    const auto ids = stored(running);
    return std::count(ids.begin(), ids.end(), first);
  };
  CHECK(eventually([&] { return times() == 2; }));
}

TEST_CASE("a prompt that the model's template refuses is not tried again, and the others are") {
  RunningGateway running(with_prompts({{"large", std::string(2048, 'x')}, {"second", kOther}}));
  REQUIRE(eventually([&] { return listed(running)[1]["status"] == "warm"; }));
  CHECK(listed(running)[0]["status"] == "refused");
  CHECK(listed(running)[0]["error"] == "text: has 2048 tokens with the model's template; the context holds 2048");
  const auto before = running.engine.submitted().size();
  running.gateway.set_directory(FakeEngine::directory());
  CHECK(listed(running)[0]["status"] == "refused");
  CHECK(running.engine.submitted().size() == before);
}

TEST_CASE("prompts are put, replaced and deleted") {
  RunningGateway running(with_prompts({}));
  CHECK(listed(running).empty());
  auto answer = put(running, {{"name", "support.v1"}, {"text", kShort}});
  CHECK(answer.status == 200);
  CHECK(answer.json()["tokens"] == 40);
  CHECK(all_are(running, "warm"));
  CHECK(put(running, {{"name", "support.v1"}, {"text", kShort}}).json()["status"] == "warm");  // the same: nothing to do
  CHECK(running.engine.dropped().empty());
  CHECK(put(running, {{"name", "support.v1"}, {"text", kOther}}).json()["tokens"] == 41);
  CHECK(all_are(running, "warm"));
  REQUIRE(stored(running).size() == 2);
  CHECK(listed(running).size() == 1);
  CHECK(eventually([&] { return running.engine.dropped() == std::vector<std::string>{stored(running)[0]}; }));
  answer = ask(running, "DELETE", "/v1/system_prompts/support.v1");
  CHECK(answer.json() == json{{"name", "support.v1"}, {"object", "system_prompt"}, {"deleted", true}});
  CHECK(running.engine.dropped().size() == 2);
  CHECK(ask(running, "DELETE", "/v1/system_prompts/support.v1").status == 404);
  CHECK(listed(running).empty());
}

TEST_CASE("bad prompts are a 400 that names the field") {
  RunningGateway running(with_prompts({}));
  const auto param = [&](const json& body) {
    const auto answer = put(running, body);
    CHECK(answer.status == 400);
    return answer.json()["error"]["param"];
  };
  for (const json& name : {json(), json(7), json(""), json("a b"), json("a/b"), json(std::string(65, 'a')), json("\u00e9")})
    CHECK(param({{"name", name}, {"text", "x"}}) == "name");
  for (const json& text : {json(), json(7), json(""), json(std::string((1 << 20) + 1, 'x'))})
    CHECK(param({{"name", "a"}, {"text", text}}) == "text");
  CHECK(param({{"name", "a"}, {"text", std::string(3000, 'x')}}) == "text");
  CHECK(ask(running, "POST", "/v1/system_prompts", "[]").status == 400);
  CHECK(listed(running).empty());
}

TEST_CASE("there is room for so many prompts") {
  SystemPrompts prompts;
  for (std::size_t i = 0; i < kMostSystemPrompts; i++) prompts.push_back({"p" + std::to_string(i), kShort + std::to_string(i)});
  RunningGateway running(with_prompts(std::move(prompts)));
  CHECK(put(running, {{"name", "more"}, {"text", kShort}}).status == 429);
  CHECK(put(running, {{"name", "p7"}, {"text", kOther}}).status == 200);
  CHECK(ask(running, "DELETE", "/v1/system_prompts/p8").status == 200);  // perhaps in the middle of its turn
  CHECK(put(running, {{"name", "more"}, {"text", kShort}}).status == 200);
  CHECK(all_are(running, "warm"));
}
