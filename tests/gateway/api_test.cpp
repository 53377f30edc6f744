// The description of the API against the API: every route is in it, and every range it tells is the one that is enforced.
#include "gateway/api_schemas.h"
#include "gateway/error_body.h"
#include "gateway/openapi.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cctype>
#include <set>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

/// A body that is good, so that a test may spoil one field of it.
json good_body(std::string_view request) {
  json messages = {{{"role", "user"}, {"content", "words=1"}}};
  if (request == "ChatRequest") return {{"messages", messages}, {"logprobs", true}};  // top_logprobs needs it
  if (request == "CompletionRequest") return {{"prompt", "words=1"}};
  if (request == "TokenizeRequest") return {{"content", "a"}};
  if (request == "DetokenizeRequest") return {{"tokens", {1}}};
  if (request == "PinRequest") return {{"ttl_seconds", 60}};
  if (request == "ScoreRequest") return {{"continuations", {"a"}}};
  if (request == "TemplateRequest") return {{"messages", messages}};
  return {{"input", "words=1"}};
}

std::string url_for(std::string_view request) {
  for (const auto& route : route_table())
    if (route.request == request) return std::string(route.path);
  return {};
}

/// Values of a field that are good, and values that are not.
struct Samples {
  std::vector<json> good, bad;
};

Samples samples_of(const json& schema) {
  Samples out;
  auto type = schema.value("type", "");
  if (type == "boolean") return {{true, false}, {"true", 1, json::array()}};
  if (type == "integer") {
    auto low = schema["minimum"].get<std::int64_t>(), high = schema["maximum"].get<std::int64_t>();
    out = {{low, high}, {"1", 1.5, true, json::object()}};
    if (low > fields::kInt64Min) out.bad.push_back(low - 1);
    out.bad.push_back(high < fields::kInt64Max ? json(high + 1) : json(static_cast<std::uint64_t>(high) + 1));
  } else if (type == "number") {
    double low = schema["minimum"], high = schema["maximum"];
    out = {{low, high}, {"1", true, json::array(), low - 0.001, high + 0.001}};
  } else if (type == "string" && schema.contains("maxLength")) {
    auto most = schema["maxLength"].get<std::size_t>();
    out = {{std::string()}, {std::string(most + 1, 'x'), 7, json::array()}};
  } else if (schema.contains("enum")) {
    for (const auto& value : schema["enum"]) out.good.push_back(value);
    out.bad = {"none of these", 3};
  } else if (type == "array" && schema.contains("maxItems")) {
    out.bad = {"text", json::object(), std::vector<int>(schema["maxItems"].get<std::size_t>() + 1, 1)};
  } else if (type == "object" && !schema.contains("$comment")) {
    out.bad = {"text", json::array({1}), 5};
  }
  return out;
}

/// Taken and ignored: nothing is wrong there.
bool ignored(std::string_view help) { return help.substr(0, 9) == "taken and"; }

}  // namespace

TEST_CASE("every route is described, with bodies that exist") {
  auto document = openapi_document(Limits{});
  CHECK(document["openapi"] == "3.1.0");
  std::size_t operations = 0;
  std::set<std::string> used;
  for (const auto& route : route_table()) {
    INFO(route.method << " " << route.path);
    std::string method;
    for (unsigned char c : route.method) method += static_cast<char>(std::tolower(c));
    REQUIRE(document["paths"][openapi_path(route)].contains(method));
    const auto& operation = document["paths"][openapi_path(route)][method];
    CHECK_FALSE(route.summary.empty());
    CHECK((route.guard == Guard::kOpen) == !operation.contains("security"));
    CHECK(operation["responses"].contains("200"));
    operations++;
    if (!route.request.empty()) used.insert(std::string(route.request));
  }
  std::size_t described = 0;
  for (const auto& [path, methods] : document["paths"].items()) described += methods.size();
  CHECK(described == operations);
  for (const auto& request : request_schemas()) CHECK(used.contains(std::string(request.name)));
  // References lead somewhere.
  auto text = document.dump();
  for (std::size_t at = text.find("#/components/schemas/"); at != text.npos; at = text.find("#/components/schemas/", at + 1)) {
    auto name = text.substr(at + 21, text.find('"', at) - at - 21);
    INFO(name);
    CHECK(document["components"]["schemas"].contains(name));
  }
}

TEST_CASE("the description is served, with the limits of this server") {
  GatewayOptions options;
  options.limits.choices = 7;
  RunningGateway running(options);
  TestClient client(running.port());
  auto document = client.get("/openapi.json").json();
  CHECK(document["components"]["schemas"]["ChatRequest"]["properties"]["n"]["maximum"] == 7);
  CHECK(client.post("/v1/completions", R"({"prompt":"words=1","n":8})").json()["error"]["param"] == "n");
  CHECK(client.post("/v1/completions", R"({"prompt":["words=1","words=1"],"n":4})").json()["error"]["param"] == "n");
  CHECK_FALSE(client.get("/version").json()["version"].get<std::string>().empty());
}

// R28: a field of the wrong JSON type ended the process. R30: a number out of its range did. R26: n had no bound worth the name.
TEST_CASE("what is described is what is enforced: bounds are good, beyond them and other types are a 400 that names the field") {
  RunningGateway running;
  TestClient client(running.port());
  std::size_t checked = 0;
  const auto id = client.post("/v1/responses", R"({"input":"words=1"})").json()["id"].get<std::string>();
  for (const auto& request : request_schemas()) {
    if (request.name == "SystemPromptRequest") continue;  // for the admin; see system_prompts_test.cpp
    auto url = url_for(request.name);
    if (auto at = url.find("{id}"); at != url.npos) url.replace(at, 4, id);
    for (const auto& field : request.fields) {
      std::string name(name_of(field));
      if (ignored(help_of(field))) continue;
      auto samples = samples_of(schema_of(field, Limits{}));
      for (const auto& [values, good] : {std::pair(samples.good, true), std::pair(samples.bad, false)})
        for (const auto& value : values) {
          auto body = good_body(request.name);
          if (name == "stream" && good && value == true) continue;  // answered by events
          if (name == "prompt" || name == "messages") body.erase("content");
          if (name == "best_of" && good) body["n"] = value;
          body[name] = value;
          INFO(url << " " << body.dump().substr(0, 200));
          auto answer = client.post(url, body.dump());
          CHECK(answer.status == (good ? 200 : 400));
          if (!good && answer.status == 400) {
            auto param = answer.json()["error"]["param"];
            REQUIRE(param.is_string());
            CHECK(param.get<std::string>().substr(0, name.size()) == name);
          }
          checked++;
        }
      // Null reads as absent, unless the field is needed.
      auto body = good_body(request.name);
      bool needed = body.contains(name) && name != "logprobs";
      body[name] = nullptr;
      INFO(url << " null " << name);
      CHECK(client.post(url, body.dump()).status == (needed ? 400 : 200));
    }
  }
  CHECK(checked > 300);
}

TEST_CASE("queries that are described are read: a bad value is a 400 that names the field") {
  RunningGateway running;
  TestClient client(running.port());
  auto id = client.post("/v1/responses", R"({"input":"words=1"})").json()["id"].get<std::string>();
  std::size_t checked = 0;
  for (const auto& route : route_table()) {
    if (route.guard == Guard::kAdmin) continue;  // see cache_events_test.cpp
    auto url = openapi_path(route);
    const bool deletes = route.method == "DELETE";
    auto described = openapi_document(Limits{})["paths"][url][deletes ? "delete" : "get"]["parameters"];
    if (auto at = url.find("{id}"); at != url.npos) url.replace(at, 4, id);
    for (const auto& field : route.query) {
      std::string name(name_of(field));
      INFO(url << " " << name);
      CHECK(std::count_if(described.begin(), described.end(),
                          [&](const json& row) { return row["name"] == name && row["in"] == "query"; }) == 1);
      if (ignored(help_of(field))) continue;
      auto get = [&](const json& value) {
        auto text = value.is_string() ? value.get<std::string>() : value.dump();
        for (auto blank = text.find(' '); blank != text.npos; blank = text.find(' ')) text[blank] = '+';
        if (!deletes) return client.get(url + "?" + name + "=" + text);
        client.send_request("DELETE", (value == "maybe" ? url : "/v1/responses/nobody") + "?" + name + "=" + text, "", "");
        return client.read_answer();
      };
      auto schema = schema_of(field, Limits{});
      if (schema.contains("default") && schema["default"] != true) CHECK(get(schema["default"]).status == (deletes ? 404 : 200));
      std::vector<json> bad = samples_of(schema).bad;
      for (const auto& value : bad) {
        if (value.is_structured() || value == "true" || value == 1 || value == "1" || (value == 7 && schema.value("type", "") == "string"))
          continue;  // of which every text of a query is, or may be, one
        INFO(value.dump().substr(0, 100));
        auto answer = get(value);
        CHECK(answer.status == 400);
        CHECK(answer.json()["error"]["param"] == name);
        checked++;
      }
      if (schema.value("type", "") == "boolean") {
        CHECK(get("maybe").json()["error"]["param"] == name);
        checked++;
      }
    }
  }
  CHECK(checked >= 8);
}

// R18: a body that is JSON but no object was a 500. R06: one in another encoding ended the process while its error was written.
TEST_CASE("bodies that are no JSON object are a 400 on every route that reads one, without an echo") {
  RunningGateway running;
  TestClient client(running.port());
  for (const auto& route : route_table()) {
    if (route.request.empty() || route.guard == Guard::kAdmin) continue;
    for (const std::string& body :
         {std::string("[]"), std::string("\"x\""), std::string("null"), std::string("1"), std::string(), std::string("{"),
          std::string("{\"prompt\":[]}"), std::string("{\"prompt\":\"\xC4\xE3\"}"), std::string("\xff\xfe{\0}\0", 6)}) {
      INFO(route.path << " " << body);
      auto answer = client.post(std::string(route.path), body);
      CHECK(answer.status == 400);
      CHECK(answer.body.find('\xC4') == std::string::npos);
      CHECK(answer.json()["error"]["type"] == "invalid_request_error");
    }
  }
  CHECK(client.get("/health").status == 200);
}

TEST_CASE("known fields that are not supported are refused by name; such that ask for nothing are not") {
  RunningGateway running;
  TestClient client(running.port());
  for (const auto& [name, value] : std::map<std::string, json>{{"suffix", "x"},
                                                               {"grammar", "root ::= x"},
                                                               {"guided_json", {{"type", "object"}}},
                                                               {"response_format", {{"type", "json_schema"}}},
                                                               {"min_tokens", 3},
                                                               {"functions", {{{"name", "f"}}}},
                                                               {"use_beam_search", true}}) {
    for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
      json body = {{"prompt", "words=1"}, {"messages", {{{"role", "user"}, {"content", "words=1"}}}}, {name, value}};
      auto answer = client.post(path, body.dump());
      INFO(path << " " << name);
      CHECK(answer.status == 400);
      CHECK(answer.json()["error"]["code"] == "unsupported_parameter");
      CHECK(answer.json()["error"]["param"].get<std::string>().rfind(name, 0) == 0);
      for (const json& nothing : {json(nullptr), json(false), json(0), json("")}) {
        if (name == "response_format" && !nothing.is_null()) continue;
        body[name] = nothing;
        CHECK(client.post(path, body.dump()).status == 200);
      }
    }
  }
  // What has another name in responses, or none.
  for (const auto& [name, value] : std::map<std::string, json>{{"max_tokens", 3},
                                                               {"max_completion_tokens", 3},
                                                               {"messages", json::array({1})},
                                                               {"n", 2},
                                                               {"logprobs", true},
                                                               {"response_format", {{"type", "json_object"}}},
                                                               {"min_tokens", 2},
                                                               {"grammar", "root ::= x"}}) {
    INFO(name);
    auto answer = client.post("/v1/responses", json{{"input", "words=1"}, {name, value}}.dump());
    CHECK(answer.status == 400);
    CHECK(answer.json()["error"]["param"] == name);
    CHECK(client.post("/v1/responses", json{{"input", "words=1"}, {name, nullptr}}.dump()).status == 200);
  }
  CHECK(client.post("/v1/responses", R"({"input":"words=1","n":1,"logprobs":false})").status == 200);
  for (const char* name : {"input", "instructions", "max_output_tokens", "previous_response_id"}) {
    INFO(name);
    json body = {{"messages", {{{"role", "user"}, {"content", "words=1"}}}}, {name, "7"}};
    auto answer = client.post("/v1/chat/completions", body.dump());
    CHECK(answer.status == 400);
    CHECK(answer.json()["error"]["param"] == name);
  }
  CHECK(client.post("/v1/chat/completions", "").json()["error"]["message"] == "the body is empty: it must be a JSON object");
  for (const char* field : {R"("user":"u")", R"("metadata":{"a":"b"})", R"("store":true)", R"("service_tier":"auto")", R"("whatever":[1])"})
    CHECK(client.post("/v1/chat/completions", std::string(R"({"messages":[{"role":"user","content":"words=1"}],)") + field + "}").status ==
          200);
}

TEST_CASE("the page of the API names every route and every field") {
  auto page = api_markdown();
  for (const auto& route : route_table()) CHECK(page.find("`" + std::string(route.method) + " " + openapi_path(route) + "`") != page.npos);
  for (const auto& request : request_schemas())
    for (const auto& field : request.fields) CHECK(page.find("| `" + std::string(name_of(field)) + "` |") != page.npos);
  for (const auto& route : route_table())
    for (const auto& field : route.query) CHECK(page.find("| `" + std::string(name_of(field)) + "` |") != page.npos);
}
