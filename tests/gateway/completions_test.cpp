// Completions and the tokenizing endpoints over real sockets, against a fake engine.
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

std::string streamed_text(const TestAnswer& answer, int choice) {
  std::string text;
  for (const auto& event : answer.events()) {
    if (event == "[DONE]") break;
    auto parsed = json::parse(event);
    for (const auto& entry : parsed["choices"])
      if (entry["index"] == choice) text += entry.value("text", "");
  }
  return text;
}

TestAnswer complete(RunningGateway& running, const json& body) {
  TestClient client(running.port());
  return client.post("/v1/completions", body.dump());
}

}  // namespace

TEST_CASE("a completion, whole") {
  RunningGateway running;
  auto answer = complete(running, {{"model", "tiny"}, {"prompt", "words=3"}, {"max_tokens", 5}});
  REQUIRE(answer.status == 200);
  auto body = answer.json();
  CHECK(body["object"] == "text_completion");
  CHECK(body["choices"][0]["text"] == " w0 w1 w2");
  CHECK(body["choices"][0]["finish_reason"] == "stop");
  CHECK(body["choices"][0]["logprobs"].is_null());
  CHECK_FALSE(body["choices"][0].contains("prompt_logprobs"));
  CHECK(body["usage"]["total_tokens"] == 10);
  auto submitted = running.engine.submitted().at(0);
  CHECK(submitted->getEndpoint() == messages::Endpoint::COMPLETIONS);
  CHECK(submitted->getMaxTokens() == 5);
  CHECK(submitted->getScoreFrom() == kNone32);
  CHECK_FALSE(submitted->getParseSpecial());
}

TEST_CASE("several prompts: each is a request, choice c of prompt p has index p * n + c") {
  RunningGateway running;
  auto answer = complete(running, {{"prompt", {"words=2", "length", "words=1"}}, {"n", 2}});
  REQUIRE(answer.status == 200);
  auto body = answer.json();
  REQUIRE(body["choices"].size() == 6);
  for (int i = 0; i < 6; i++) CHECK(body["choices"][i]["index"] == i);
  CHECK(body["choices"][1]["text"] == " w0 w1");
  CHECK(body["choices"][2]["finish_reason"] == "length");
  CHECK(body["choices"][5]["text"] == " w0");
  CHECK(body["usage"]["prompt_tokens"] == 21);
  CHECK(body["usage"]["prompt_tokens_details"]["cached_tokens"] == 12);
  CHECK(running.engine.submitted().size() == 3);
  auto tokens = complete(running, {{"prompt", {{5, 6, 7}, {8}}}}).json();
  CHECK(tokens["choices"][0]["text"] == "3 tokens");
  CHECK(tokens["choices"][1]["text"] == "1 tokens");
  CHECK(complete(running, {{"prompt", {5, 6}}}).json()["choices"][0]["text"] == "2 tokens");
}

// R24: with several choices the last chunk always said index 0. R74: a usage chunk without choices, or without being asked for.
TEST_CASE("several prompts, streamed: pieces join to the whole, each choice has its finish, usage comes only when asked for") {
  RunningGateway running;
  json body = {{"prompt", {"words=100", "words=7"}}, {"n", 2}, {"stream", true}};
  for (bool usage : {false, true}) {
    if (usage) body["stream_options"] = {{"include_usage", true}};
    auto answer = complete(running, body);
    REQUIRE(answer.status == 200);
    CHECK(answer.headers["content-type"] == "text/event-stream");
    auto events = answer.events();
    CHECK(events.back() == "[DONE]");
    std::map<int, std::string> reasons;
    int with_usage = 0;
    for (const auto& event : events) {
      if (event == "[DONE]") continue;
      auto parsed = json::parse(event);
      CHECK(parsed.contains("usage") == usage);
      if (parsed["choices"].empty()) {
        with_usage++;
        CHECK(parsed["usage"]["completion_tokens"] == 214);
      } else if (usage) {
        CHECK(parsed["usage"].is_null());
      }
      for (const auto& choice : parsed["choices"])
        if (!choice["finish_reason"].is_null()) reasons[choice["index"].get<int>()] += choice["finish_reason"];
    }
    CHECK(with_usage == (usage ? 1 : 0));
    CHECK(reasons == std::map<int, std::string>{{0, "stop"}, {1, "stop"}, {2, "stop"}, {3, "stop"}});
    auto whole = complete(running, {{"prompt", {"words=100", "words=7"}}, {"n", 2}}).json();
    for (int i = 0; i < 4; i++) CHECK(streamed_text(answer, i) == whole["choices"][i]["text"]);
  }
}

TEST_CASE("log-probabilities of a completion") {
  RunningGateway running;
  auto answer = complete(running, {{"prompt", "words=2"}, {"logprobs", 1}}).json()["choices"][0]["logprobs"];
  CHECK(answer["tokens"] == json({" w0", " w1"}));
  CHECK(answer["token_logprobs"] == json({-0.5, -0.5}));
  CHECK(answer["text_offset"] == json({0, 1}));
  CHECK(answer["top_logprobs"][0] == json({{"other", -0.25}, {" w0", -0.5}}));  // the token itself is always there
  auto none = complete(running, {{"prompt", "words=1"}, {"logprobs", 0}}).json()["choices"][0]["logprobs"];
  CHECK(none["top_logprobs"][0] == json({{" w0", -0.5}}));
  CHECK(running.engine.submitted().back()->getSampling().getTopLogprobs() == 0);
  complete(running, {{"prompt", "words=1"}, {"logprobs", 2}, {"echo", true}});
  CHECK(running.engine.submitted().back()->getScoreFrom() == 0);
  CHECK(running.engine.submitted().back()->getEcho());
  complete(running, {{"prompt", "words=1"}, {"prompt_logprobs", 4}, {"logprobs", 2}});
  CHECK(running.engine.submitted().back()->getSampling().getTopLogprobs() == 4);
}

TEST_CASE("one prompt that fails ends the whole completion, once") {
  RunningGateway running;
  for (bool stream : {false, true}) {
    auto refused = complete(running, {{"prompt", {"hang", "refuse"}}, {"stream", stream}});
    CHECK(refused.status == 429);
    CHECK(refused.json()["error"]["code"] == "queue_full");
    CHECK(eventually([&] { return running.engine.silent_cancels().size() == (stream ? 3U : 1U); }));
    auto broken = complete(running, {{"prompt", {"hang", "fail"}}, {"stream", stream}});
    CHECK(broken.status == (stream ? 200 : 500));
    if (stream) {
      auto events = broken.events();
      REQUIRE(events.size() >= 2);
      CHECK(events.back() == "[DONE]");
      CHECK(json::parse(events[events.size() - 2])["error"]["type"] == "server_error");
    }
  }
}

TEST_CASE("a client that leaves cancels every prompt; a drain tells the rest") {
  RunningGateway running;
  {
    TestClient client(running.port());
    json body = {{"prompt", {"hang", "hang", "hang"}}};
    client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.dump().size()) + "\r\n\r\n" +
                body.dump());
    REQUIRE(eventually([&] { return running.engine.submitted().size() == 3; }));
  }
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 3; }));
  TestClient last(running.port());
  json body = {{"prompt", {"hang", "words=1"}}};
  last.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.dump().size()) + "\r\n\r\n" +
            body.dump());
  REQUIRE(eventually([&] { return running.engine.submitted().size() == 5; }));
  running.gateway.drain(std::chrono::milliseconds(50));
  auto answer = last.read_answer();
  CHECK(answer.status == 503);
  CHECK(answer.json()["error"]["code"] == "server_draining");
}

TEST_CASE("an answer that outgrows its bound is an error that says so, not memory") {
  GatewayOptions options;
  options.limits.answer = 1000;
  RunningGateway running(options);
  TestClient client(running.port());
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    json body = {{"prompt", "words=2000"}, {"messages", {{{"role", "user"}, {"content", "words=2000"}}}}};
    auto answer = client.post(path, body.dump());
    CHECK(answer.status == 400);
    CHECK(answer.json()["error"]["message"].get<std::string>().find("ask for fewer") != std::string::npos);
    body["stream"] = true;
    CHECK(client.post(path, body.dump()).events().back() == "[DONE]");
  }
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 2; }));
}

TEST_CASE("tokens of a text, in llama.cpp's words and in vLLM's") {
  RunningGateway running;
  TestClient client(running.port());
  auto llama = client.post("/tokenize", R"({"content":"ab"})");
  REQUIRE(llama.status == 200);
  CHECK(llama.json() == json({{"tokens", {97, 98}}, {"count", 2}, {"max_model_len", 2048}}));
  CHECK_FALSE(running.engine.submitted().back()->getAddSpecial());
  CHECK(client.post("/tokenize", R"({"content":"a\u00e9","with_pieces":true,"add_special":true,"parse_special":true})").json()["tokens"] ==
        json({{{"id", 97}, {"piece", "a"}}, {{"id", 0xc3}, {"piece", {0xc3}}}, {{"id", 0xa9}, {"piece", {0xa9}}}}));
  CHECK(running.engine.submitted().back()->getAddSpecial());
  CHECK(running.engine.submitted().back()->getParseSpecial());
  CHECK(client.post("/tokenize", R"({"prompt":"ab","return_token_strs":true})").json()["token_strs"] == json({"a", "b"}));
  CHECK(running.engine.submitted().back()->getAddSpecial());
  client.post("/tokenize", R"({"prompt":"ab","add_special_tokens":false})");
  CHECK_FALSE(running.engine.submitted().back()->getAddSpecial());
  CHECK(client.post("/tokenize", R"({"messages":[{"role":"user","content":"abc"}],"add_generation_prompt":false})").json()["count"] == 3);
  CHECK_FALSE(running.engine.submitted().back()->getGenerationPrompt());
  CHECK(client.post("/detokenize", R"({"tokens":[1,2,3]})").json() == json({{"content", "3 tokens"}, {"prompt", "3 tokens"}}));
  CHECK(client.post("/apply-template", R"({"messages":[{"role":"user","content":"abc"}]})").json() == json({{"prompt", "abc"}}));
  CHECK(client.post("/v1/chat/completions/input_tokens", R"({"messages":[{"role":"user","content":"abcd"}]})").json()["input_tokens"] == 4);
  for (const char* body : {R"({})", R"({"content":"a","prompt":"b"})", R"({"content":5})", R"({"content":"a","with_pieces":1})"})
    CHECK(client.post("/tokenize", body).status == 400);
  for (const char* body : {R"({})", R"({"tokens":"a"})", R"({"tokens":[-1]})", R"({"tokens":[1.5]})", R"({"tokens":[4294967295]})"})
    CHECK(client.post("/detokenize", body).json()["error"]["param"] == "tokens");
  CHECK(client.post("/tokenize", R"({"content":"a","model":"another"})").status == 404);
}
