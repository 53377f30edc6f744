// The pure parts of the Responses endpoints: the log of events, the reader of queries, and what a request may say.
#include "gateway/event_log.h"
#include "gateway/query.h"
#include "gateway/responses_request.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

TEST_CASE("a log drops whole events from its front, but none that is needed") {
  EventLog log;
  CHECK(log.bytes_from(0) == 0);
  log.trim(0, 100);
  for (int i = 0; i < 10; i++) log.add("t", std::string(100, static_cast<char>('0' + i)));
  auto whole = log.bytes();
  CHECK(whole >= 1000);
  CHECK(log.bytes_from(0) == whole);
  CHECK(log.bytes_from(9) == whole / 10);
  CHECK(log.bytes_from(10) == 0);
  log.trim(whole / 2, 3);
  CHECK(log.first() == 3);
  CHECK(log.at(3).json[0] == '3');
  CHECK(log.bytes_from(0) == log.bytes());
  log.trim(whole / 2, 10);
  CHECK(log.first() == 5);
  CHECK(log.bytes() == whole / 2);
  log.trim(0, log.end());
  CHECK(log.bytes() == 0);
  CHECK(log.first() == 10);
  log.add("t", "next");
  CHECK(log.end() == 11);
  CHECK(log.at(10).json == "next");
  CHECK(log.bytes_from(10) == log.bytes());
}

TEST_CASE("queries are decoded and checked") {
  HttpRequest request;
  request.target = "/x?a=1&b=%74rue&c=x+y%2Bz&&d&e=&big=99999999999999999999&a=2#f=3";
  std::optional<Error> error;
  QueryFields query(request, error);
  CHECK(query.integer("a", 0, 5, -1) == 1);
  CHECK(query.boolean("b", false));
  CHECK(query.text("c", 10) == "x y+z");
  CHECK(query.text("d", 10).empty());
  CHECK(query.boolean("e", true));
  CHECK(query.integer("f", 0, 5, -1) == -1);
  CHECK_FALSE(error.has_value());
  query.integer("big", 0, 5, 0);
  REQUIRE(error.has_value());
  CHECK(error->client_text == "big must be an integer from 0 to 5");
  CHECK(error->parameter == "big");
  query.boolean("c", false);
  CHECK(error->parameter == "big");  // the first fault stays
}

namespace {

std::optional<Error> fault(const std::string& fields, ResponsesTransport transport = ResponsesTransport::kHttp) {
  auto parsed = parse_responses_request(*parse_json_object("{\"input\":\"x\"," + fields + "}", 64), Limits{}, transport);
  return parsed.ok() ? std::nullopt : std::optional(parsed.error());
}

}  // namespace

TEST_CASE("known fields that would get lost are refused by their names") {
  for (const auto& [fields, name] : std::vector<std::pair<std::string, std::string>>{
           {R"("background":true)", "background"},
           {R"("truncation":"auto")", "truncation"},
           {R"("conversation":"conv_1")", "conversation"},
           {R"("prompt":{"id":"p"})", "prompt"},
           {R"("context_management":[])", "context_management"},
           {R"("moderation":{"model":"m"})", "moderation"},
           {R"("reasoning":{"effort":"high"})", "reasoning.effort"},
           {R"("reasoning":{"summary":"auto"})", "reasoning.summary"},
           {R"("text":{"format":{"type":"json_schema"}})", "text.format.type"},
           {R"("text":{"format":{}})", "text.format.type"},
           {R"("text":{"verbosity":"low"})", "text.verbosity"},
           {R"("tool_choice":"required")", "tool_choice"},
           {R"("tools":[{"type":"web_search"}])", "tools[0]"},
           {R"("stream_id":"lane")", "stream_id"},
           {R"("include":["everything"])", "include"},
           {R"("include":"message.output_text.logprobs")", "include"},
           {R"("metadata":{"a":1})", "metadata"},
           {R"("metadata":[])", "metadata"},
           {R"("stream":"yes")", "stream"},
           {R"("store":1)", "store"},
           {R"("generate":"no")", "generate"},
           {R"("max_output_tokens":0)", "max_output_tokens"},
           {R"("top_logprobs":21)", "top_logprobs"},
           {R"("previous_response_id":7)", "previous_response_id"},
           {R"("stream_options":[])", "stream_options"},
       }) {
    auto error = fault(fields);
    INFO(fields);
    REQUIRE(error.has_value());
    CHECK(error->parameter == name);
    CHECK(error->error_class == ErrorClass::kInvalidRequest);
  }
  CHECK_FALSE(fault(R"("stream_id":"lane")", ResponsesTransport::kWebSocket).has_value());
}

TEST_CASE("fields that change nothing here are taken") {
  CHECK_FALSE(fault(R"("background":false,"truncation":"disabled","reasoning":{"effort":null},"text":{"format":{"type":"text"}},
    "include":["reasoning.encrypted_content"],"metadata":{"a":"b"},"service_tier":"auto","safety_identifier":"s","user":"u",
    "parallel_tool_calls":true,"max_tool_calls":3,"stream_options":{"include_obfuscation":true},"prompt_cache_key":"k","unknown":[1])")
                  .has_value());
}

TEST_CASE("what a Responses request becomes") {
  auto parsed = parse_responses_request(*parse_json_object(R"({"input":[{"role":"user","content":"hi"},
    {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"ho"}]}],
    "include":["message.output_text.logprobs"],"prompt_cache_options":{"prewarm":true},"store":false})",
                                                           64),
                                        Limits{}, ResponsesTransport::kHttp);
  REQUIRE(parsed.ok());
  CHECK_FALSE(parsed->generate);
  CHECK_FALSE(parsed->continuable);
  CHECK_FALSE(parsed->stream);
  CHECK(parsed->engine.max_tokens == 0);
  CHECK(parsed->engine.sampling.top_logprobs == 0);
  REQUIRE(parsed->input_items.size() == 2);
  CHECK(parsed->input_items[0]["content"][0] == json{{"type", "input_text"}, {"text", "hi"}});
  CHECK(parsed->input_items[1]["id"] == "msg_1");
  auto socket = parse_responses_request(*parse_json_object(R"({"input":"x","store":false})", 64), Limits{}, ResponsesTransport::kWebSocket);
  REQUIRE(socket.ok());
  CHECK(socket->continuable);
  CHECK(socket->stream);
}
