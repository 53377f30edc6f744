// The load client and its scenarios against prepared answers.
#include "cluster/bench/cache_loads.h"
#include "tests/cluster/scripted_server.h"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <utility>

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::bench;
using troupe::cluster::testing::ScriptedServer;

namespace {

const std::atomic<bool> kGoOn{false};

std::string event(const std::string& delta) { return R"(data: {"choices":[{"index":0,"delta":)" + delta + "}]}\n\n"; }
const std::string kUsage =
    R"(data: {"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}})"
    "\n\n";
const std::string kDone = "data: [DONE]\n\n";

std::string chunked(const std::string& body) {
  std::string out = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t at = 0; at < body.size(); at += 50) {
    const std::string piece = body.substr(at, 50);
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    out += size + piece + "\r\n";
  }
  return out + "0\r\n\r\n";
}
std::string whole(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const std::string kAnswer = chunked(event(R"({"role":"assistant"})") + event(R"({"content":"Hel"})") + ": ping\n\n" +
                                    event(R"({"content":"lo"})") + kUsage + kDone);

CallResult ask(const std::string& answer, std::size_t step = 1 << 20) {
  ScriptedServer server({answer}, step);
  LoadClient client(server.address(), {.model = "m"}, kGoOn);
  return client.call({{"user", "hi"}}, 4);
}

}  // namespace

TEST_CASE("load client: an answer is timed and counted, whatever the cuts") {
  for (const std::size_t step : {std::size_t{1}, std::size_t{9}, std::size_t{1} << 20}) {
    const CallResult result = ask(kAnswer, step);
    CHECK(result.error == "");
    CHECK(result.text() == "Hello");
    REQUIRE(result.stamps.size() == 2);
    CHECK(result.start <= result.stamps[0]);
    CHECK(result.stamps[0] <= result.stamps[1]);
    CHECK(result.stamps[1] <= result.end);
    CHECK(result.prompt_tokens == 70);
    CHECK(result.cached_tokens == 5);
    CHECK(result.output_tokens == 3);
  }
}

TEST_CASE("load client: other servers' words, and no usage") {
  const CallResult result = ask(chunked(event(R"({"content":null,"reasoning_content":"a"})") + event(R"({"reasoning":"b"})") + kDone));
  CHECK(result.error == "");
  CHECK(result.text() == "ab");
  CHECK(result.output_tokens == 2);
}

TEST_CASE("load client: tokens by tier, in either place of usage") {
  const std::string text = event(R"({"content":"a"})");
  const auto usage = [&](const std::string& fields) {
    return chunked(text + R"(data: {"choices":[],"usage":{)" + fields + "}}\n\n" + kDone);
  };
  const CallResult a = ask(usage(R"("prompt_tokens_details":{"cached_tokens":60,"cache_report":{"device":32,"host":20,"disk":8}})"));
  CHECK((a.cached_tokens == 60 && a.tiers.device == 32 && a.tiers.host == 20 && a.tiers.disk == 8));
  const CallResult b = ask(usage(R"("cache":{"device":1,"host":"x","disk":3},"prompt_tokens_details":[])"));
  CHECK((b.error.empty() && b.cached_tokens == 0 && b.tiers.device == 1 && b.tiers.host == 0 && b.tiers.disk == 3));
}

TEST_CASE("load client: completions have a text a choice, or none") {
  const std::string pieces = R"(data: {"choices":[{"index":1,"text":"b"},{"index":0,"text":"a"},{"index":9,"text":"!"}]})"
                             "\n\n";
  ScriptedServer server({chunked(pieces + kUsage + kDone), chunked(R"(data: {"choices":[{"index":0,"text":""}]})"
                                                                   "\n\n" +
                                                                   kUsage + kDone)});
  LoadClient client(server.address(), {.model = "m"}, kGoOn);
  std::vector<CallResult> results;
  const auto keep = [&](CallResult&& result) { results.push_back(std::move(result)); };
  CompletionCall call;
  call.prompt = "p";
  call.choices = 2;
  call.temperature = 0.5;
  call.seed = 7;
  client.start(call, keep);
  client.run();
  call = {};
  call.prompt_ids = {33, 34};
  call.logprobs = 5;
  client.start(call, keep);
  client.run();
  REQUIRE(results.size() == 2);
  CHECK(results[0].texts == std::vector<std::string>{"a!", "b"});
  CHECK(results[1].error == "");  // a control token
  CHECK(results[1].stamps.size() == 1);
  const auto& requests = server.requests();
  for (const char* part : {"POST /v1/completions ", "\"n\":2", "\"seed\":7", "\"prompt\":\"p\""})
    CHECK(requests[0].find(part) != std::string::npos);
  for (const char* part : {"\"prompt\":[33,34]", "\"logprobs\":5", "\"max_tokens\":1"}) CHECK(requests[1].find(part) != std::string::npos);
}

TEST_CASE("load client: faults are told") {
  CHECK(ask(whole("503 Busy", "{\"error\":\"full\"}")).error == "HTTP 503: {\"error\":\"full\"}");
  CHECK(ask(chunked("data: {\"error\":{\"message\":\"lost\"}}\n\n")).error.find("lost") != std::string::npos);
  CHECK(ask(chunked("data: nonsense\n\n")).error.find("not JSON") != std::string::npos);
  CHECK(ask(chunked(kUsage + kDone)).error.find("without text") != std::string::npos);
  CHECK(ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nda").error != "");
  CHECK(ask("SSH-2.0-OpenSSH_9\r\n").error.find("HTTP") != std::string::npos);
  CHECK(ask("").error != "");
  LoadClient nobody({"127.0.0.1", "1", ""}, {}, kGoOn);
  CHECK(nobody.call({{"user", "hi"}}, 4).error.find("cannot connect") == 0);
}

TEST_CASE("load client: a server that has gone away ends each of many calls, one behind the other") {
  LoadClient nobody({"127.0.0.1", "1", ""}, {}, kGoOn);
  constexpr std::size_t kCalls = 50'000;
  std::size_t refused = 0;
  bool inside = false;
  std::function<void()> ask = [&] {
    nobody.start({{"user", "hi"}}, 4, [&](CallResult&& result) {
      CHECK_FALSE(std::exchange(inside, true));  // else they pile up on the stack
      refused += !result.good();
      if (refused < kCalls) ask();
      inside = false;
    });
  };
  ask();
  CHECK(refused == 0);  // not before run()
  nobody.run();
  CHECK(refused == kCalls);
}

TEST_CASE("load client: what is open ends when told to stop") {
  ScriptedServer server({});  // accepts and never answers
  std::atomic<bool> stop{false};
  LoadClient client(server.address(), {}, stop);
  CallResult result;
  client.start({{"user", "hi"}}, 4, [&](CallResult&& r) { result = std::move(r); });
  client.after(0.02, [&] { stop = true; });
  client.run();
  CHECK(result.error == "interrupted");

  LoadClient impatient(server.address(), {.timeout_seconds = 0.05}, kGoOn);
  CHECK(impatient.call({{"user", "hi"}}, 4).error.find("time limit") != std::string::npos);
}

TEST_CASE("http scenarios: the model is found, prompts are calibrated, results summed up") {
  const std::string models = whole("200 OK", R"({"data":[{"id":"the model"}]})");
  std::vector<std::string> answers{models, kAnswer, kAnswer};
  for (int i = 0; i < 5; ++i) answers.push_back(kAnswer);
  answers.push_back(whole("429 Too Many Requests", "no"));
  ScriptedServer server(answers);
  HttpScenarios scenarios(server.address(), {}, {.requests = 6, .prompt_tokens = 32, .answer_tokens = 5}, 3, kGoOn);
  REQUIRE(scenarios.prepare().ok());
  CHECK(scenarios.model() == "the model");
  const HttpFigure figure = scenarios.run("unique", 2);
  CHECK(figure.clients == 2);
  CHECK(figure.requests == 6);
  CHECK(figure.errors == 1);
  CHECK(figure.first_error == "HTTP 429: no");
  CHECK(figure.prompt_tokens == 70);
  CHECK(figure.output_tokens == 3);
  CHECK(figure.first_token.count == 5);
  CHECK(figure.between_tokens.count == 5);
  CHECK(figure.output_tokens_per_second == Approx(15 / figure.wall_seconds));
  const auto& requests = server.requests();
  REQUIRE(requests.size() == 9);
  CHECK(requests[3].find("\"max_tokens\":5") != std::string::npos);
  CHECK(requests[3].find("\"model\":\"the model\"") != std::string::npos);
  CHECK(requests[3].find("\"include_usage\":true") != std::string::npos);
  CHECK(requests[3].find("ignore_eos") == std::string::npos);
}

TEST_CASE("http scenarios: a chat's history grows by its answers") {
  ScriptedServer server({kAnswer, kAnswer, kAnswer});
  HttpScenarios scenarios(server.address(), {.model = "m", .ignore_eos = true}, {.requests = 3, .turns = 3, .turn_words = 2}, 3, kGoOn);
  const HttpFigure figure = scenarios.run("multiturn", 1);
  CHECK(figure.requests == 3);
  CHECK(figure.errors == 0);
  CHECK(figure.first_token_by_turn.size() == 3);
  const auto& requests = server.requests();
  REQUIRE(requests.size() == 3);
  CHECK(requests[0].find("Hello") == std::string::npos);
  CHECK(requests[2].find("Hello") != requests[2].rfind("Hello"));
  CHECK(requests[2].find("\"ignore_eos\":true") != std::string::npos);
}

namespace {

const std::string kTwoChoices = chunked(R"(data: {"choices":[{"index":0,"text":" left"},{"index":1,"text":" right"}]})"
                                        "\n\n" +
                                        kUsage + kDone);
const std::string kOneChoice = chunked(R"(data: {"choices":[{"index":0,"text":" only"}]})"
                                       "\n\n" +
                                       kUsage + kDone);

std::size_t holding(const std::vector<std::string>& requests, const std::string& part) {
  return static_cast<std::size_t>(
      std::count_if(requests.begin(), requests.end(), [&](const auto& text) { return text.find(part) != std::string::npos; }));
}

}  // namespace

TEST_CASE("tree search: expansions draw children, judge each, and go on from what was drawn") {
  ScriptedServer server(std::vector<std::string>(12, kTwoChoices));
  LoadClient client(server.address(), {.model = "m"}, kGoOn);
  TreeSearch search(client, {.branches = 2, .depth = 6, .children = 2, .expansions = 4}, "root", 5, kGoOn);
  const auto results = search.run();
  CHECK(results.size() == 12);  // 4 * (1 + 2)
  CHECK(search.took_n());
  const auto& requests = server.requests();
  REQUIRE(requests.size() == 12);
  CHECK(holding(requests, "\"n\":2") == 4);
  CHECK(holding(requests, "\"logprobs\":5") == 8);
  CHECK(holding(requests, "\"prompt\":\"root") == 12);
  CHECK(holding(requests, "\"prompt\":\"root\"") == 1);  // the root is expanded once
  CHECK(holding(requests, "\"prompt\":\"root left\"") + holding(requests, "\"prompt\":\"root right\"") >= 1);
}

TEST_CASE("tree search: ends where the tree does, and when told") {
  ScriptedServer server(std::vector<std::string>(9, kTwoChoices));
  LoadClient client(server.address(), {.model = "m"}, kGoOn);
  TreeSearch search(client, {.branches = 16, .depth = 2, .children = 2, .expansions = 100}, "root", 5, kGoOn);
  CHECK(search.run().size() == 9);  // the root and its two children can be expanded

  const std::atomic<bool> stop{true};
  LoadClient idle(server.address(), {.model = "m"}, stop);
  CHECK(TreeSearch(idle, {}, "root", 5, stop).run().empty());
}

TEST_CASE("tree search: a server that refuses or forgets n gets a call a child") {
  for (const std::string& answer : {whole("400 Bad Request", "n must be 1"), kOneChoice}) {
    const bool refused = answer != kOneChoice;
    std::vector<std::string> answers{answer};
    answers.resize(16, kOneChoice);
    ScriptedServer server(answers);
    LoadClient client(server.address(), {.model = "m"}, kGoOn);
    TreeSearch search(client, {.branches = 1, .depth = 3, .children = 3, .expansions = 2}, "root", 5, kGoOn);
    const auto results = search.run();
    CHECK_FALSE(search.took_n());
    CHECK(results.size() == 12);  // 2 * (3 + 3): a refusal is no result
    for (const CallResult& result : results) CHECK(result.error == "");
    CHECK(holding(server.requests(), "\"n\":3") == 1);
    CHECK(server.requests().size() == (refused ? 13 : 12));
  }
}

TEST_CASE("cache loads: chats that the server has seen and such that it has not") {
  ScriptedServer server({kAnswer, kAnswer, kAnswer, whole("503 Busy", "")});
  HttpScenarios http(server.address(), {.model = "m"}, {}, 3, kGoOn);
  TwoTurnChats chats(http, 20);
  const auto seen = chats.begun();
  REQUIRE(seen.ok());
  REQUIRE(seen->size() == 3);
  CHECK((*seen)[1].content == "Hello");
  CHECK(chats.second_turn(*seen).good());
  const auto unknown = chats.unknown();
  CHECK(unknown.size() == 3);
  CHECK(unknown[0].content != (*seen)[0].content);
  CHECK(chats.second_turn(unknown).good());
  CHECK_FALSE(chats.begun().ok());
}

TEST_CASE("cache loads: a trace becomes prompts that share what its requests share") {
  ScriptedServer server({kOneChoice, kOneChoice});
  HttpScenarios http(server.address(), {.model = "m"}, {}, 3, kGoOn);
  const std::vector<TraceRequest> trace{{1, 2}, {1, 7, 8}};
  const HttpFigure figure = replay_trace(http, trace, 1, 64, 4, 9);
  CHECK(figure.requests == 2);
  CHECK(figure.errors == 0);
  CHECK(figure.scenario == "trace");
  const auto ids = [&](std::size_t i) {
    const std::string& text = server.requests()[i];
    return nlohmann::json::parse(text.substr(text.find("\r\n\r\n") + 4))["prompt"].get<std::vector<int>>();
  };
  const auto a = ids(0), b = ids(1);
  CHECK(a.size() == 64);
  CHECK(b.size() == 64);  // cut
  CHECK(std::equal(a.begin(), a.begin() + 32, b.begin()));
  CHECK_FALSE(std::equal(a.begin() + 32, a.end(), b.begin() + 32));
}

TEST_CASE("http scenarios: a server without models or answers is an error before anything is measured") {
  ScriptedServer none({whole("200 OK", "{}")});
  HttpScenarios a(none.address(), {}, {}, 1, kGoOn);
  CHECK_FALSE(a.prepare().ok());
  ScriptedServer broken({whole("500 Oh", "")});
  HttpScenarios b(broken.address(), {.model = "m"}, {}, 1, kGoOn);
  CHECK_FALSE(b.prepare().ok());
}
