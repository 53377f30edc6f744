// Bodies of requests: what is taken over, and that every fault is a 400 that names its field and limit.
#include "gateway/chat_request.h"
#include "gateway/error_body.h"
#include "gateway/responses_request.h"

#include "messages/error_reasons.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

Result<ChatRequest> chat(const std::string& body) {
  auto parsed = parse_json_object(body, 64);
  if (!parsed.ok()) return parsed.error();
  return parse_chat_request(*parsed, Limits{});
}
Result<ChatRequest> chat_with(const std::string& fields) { return chat(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}"); }
Result<ResponsesRequest> responses(const std::string& body) {
  auto parsed = parse_json_object(body, 64);
  if (!parsed.ok()) return parsed.error();
  return parse_responses_request(*parsed, Limits{});
}

}  // namespace

TEST_CASE("bodies that are no JSON object are refused without an echo") {
  for (const char* body :
       {"", "[]", "\"x\"", "null", "1", "{", "{\"a\":}", "{\"a\":1e999}", "{\"prompt\":\"\xC4\xE3\"}", "{\"a\":\"\\ud800\"}"}) {
    auto result = chat(body);
    REQUIRE_FALSE(result.ok());
    CHECK(http_status(result.error().error_class) == 400);
    CHECK(result.error().client_text.find("\xC4") == std::string::npos);
    CHECK(json::parse(error_body(result.error()))["error"]["code"] == "invalid_json");
  }
  CHECK(chat(std::string(100000, '[')).error().client_text.find("64 levels") != std::string::npos);
  std::string brackets = R"({"messages":[{"role":"user","content":"[[[[)" + std::string(200, '{') + R"(\"{"}]})";
  CHECK(chat(brackets).ok());  // brackets inside a string are no nesting
}

TEST_CASE("fields as the client wrote them") {
  const std::string text =
      "\xef\xbb\xbf { \"a\" : \"}]\\\"{\", \"tools\":[1],\"b\":{\"tools\":2} ,\r\n\"c\":-1e5,\"\\u0074ools\" :\t[ "
      "{\"z\":\"\\\\\",\"a\":[{}]} ] , \"last\":null}";
  auto body = parse_json_object(text, 64);
  REQUIRE(body.ok());
  CHECK(body->text_of("tools") == "[ {\"z\":\"\\\\\",\"a\":[{}]} ] ");  // of equal keys the last one
  for (const auto& [name, value] : body->value.items()) CHECK(json::parse(body->text_of(name)) == value);
  for (const char* absent : {"", "z", "tool", "toolss"}) CHECK(body->text_of(absent).empty());
  CHECK(parse_json_object("{}", 64)->text_of("a").empty());
}

TEST_CASE("tools reach the engine in the client's words") {
  const std::string tools = R"([{"type":"function", "function":{"name":"f","description":"d","parameters":{"z":1,"a":2.0}}}])";
  CHECK(chat_with(R"("tools":)" + tools)->engine.tools_json == tools);
  const std::string flat = R"([{"type":"function","strict":true,"name":"f","parameters":{"z":1,"a":2}}])";
  CHECK(responses(R"({"input":"x","tools":)" + flat + "}")->engine.tools_json == flat);
  CHECK(chat_with(R"("tools":[])")->engine.tools_json.empty());
}

TEST_CASE("a full chat request") {
  auto result =
      chat(R"({"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"a"},
    {"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f",
    "arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"42"}],"temperature":0,"top_p":0.5,"top_k":7,"seed":-3,"max_tokens":9,
    "max_completion_tokens":5,"n":2,"stop":["x","yz"],"logprobs":true,"top_logprobs":3,"stream":true,"stream_options":{"include_usage":true},
    "presence_penalty":1,"frequency_penalty":-1,"logit_bias":{"7":-100,"3":2.5},"user":"u","unknown":{"a":[1]},"priority":-4,"cache_salt":"s"})");
  REQUIRE(result.ok());
  const auto& engine = result->engine;
  CHECK(engine.model == "m");
  REQUIRE(engine.items.size() == 4);
  CHECK(engine.items[1].text == "ab");
  CHECK(engine.items[2].name == "f");
  CHECK(engine.items[3].call_id == "c1");
  CHECK(engine.sampling.temperature == 0);
  CHECK(engine.sampling.top_k == 7);
  CHECK(engine.sampling.seed == static_cast<std::uint64_t>(-3));
  CHECK(engine.max_tokens == 5);
  CHECK(engine.choices == 2);
  CHECK(engine.stops == std::vector<std::string>{"x", "yz"});
  CHECK(engine.sampling.top_logprobs == 3);
  CHECK(result->include_usage);
  CHECK(engine.sampling.biases == std::vector<std::pair<TokenId, double>>{{3, 2.5}, {7, -100}});

  auto message = build_submit(RequestId{5}, engine);
  CHECK(message->getRequest() == 5);
  CHECK(message->getInput().getItems()[1].getText() == "ab");
  CHECK(message->getSampling().getSeed() == static_cast<std::uint64_t>(-3));
  CHECK(message->getSampling().getBiases()[1] == -100);
  CHECK(message->getStops()[1] == "yz");
  CHECK(message->getPriority() == -4);
  CHECK_FALSE(message->hasResponseId());
}

TEST_CASE("null reads as absent, and the defaults are OpenAI's") {
  auto result = chat_with(R"("temperature":null,"n":null,"stop":null,"max_tokens":null,"stream":null,"logprobs":null,"top_k":-1)");
  REQUIRE(result.ok());
  CHECK(result->engine.sampling.temperature == 1);
  CHECK(result->engine.choices == 1);
  CHECK(result->engine.max_tokens == kNone32);
  CHECK(result->engine.sampling.top_k == 0);
  CHECK_FALSE(result->engine.sampling.wants_logprobs());
  CHECK(chat_with(R"("logprobs":true)")->engine.sampling.top_logprobs == 0);
  CHECK(chat_with(R"("max_tokens":100000000)")->engine.max_tokens == 100000000);
  CHECK(chat_with(R"("tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}])")->engine.tools_json.empty());
}

TEST_CASE("faults name their field") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":-1)", "temperature"},
      {R"("top_p":1.5)", "top_p"},
      {R"("top_k":0.01)", "top_k"},
      {R"("top_k":-2)", "top_k"},
      {R"("min_p":2)", "min_p"},
      {R"("n":0)", "n"},
      {R"("n":1000000)", "n"},
      {R"("n":1.5)", "n"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":"many")", "max_tokens"},
      {R"("stop":5)", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",1])", "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":99999999999999999999)", "seed"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream":true,"stream_options":[])", "stream_options"},
      {R"("logprobs":1)", "logprobs"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("presence_penalty":3)", "presence_penalty"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"1":200})", "logit_bias"},
      {R"("logit_bias":{"1":"a"})", "logit_bias"},
      {R"("logit_bias":{"7":1,"07":2})", "logit_bias"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("priority":99999999999)", "priority"},
      {R"("model":7)", "model"},
      {R"("tools":{})", "tools"},
      {R"("tools":[{"type":"x"}])", "tools[0]"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required")", "tool_choice"},
      {R"("response_format":{"type":"json_object"})", "response_format.type"},
      {R"("cache_salt":{})", "cache_salt"},
      {R"("deadline_ms":0)", "deadline_ms"},
  };
  for (const auto& [fields, parameter] : cases) {
    INFO(fields);
    auto result = chat_with(fields);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().parameter == parameter);
    CHECK(result.error().client_text.rfind(parameter, 0) == 0);
    CHECK(http_status(result.error().error_class) == 400);
  }
}

TEST_CASE("faults in messages name the message") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({})", "messages"},
      {R"({"messages":"hi"})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":[1]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"wizard","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":7}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":["x"]}]})", "messages[0].content[0]"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":1}]}]})", "messages[0].content[0].text"},
      {R"({"messages":[{"role":"user","content":"x"},{"role":"tool","content":"x"}]})", "messages[1].tool_call_id"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"id":1}]}]})", "messages[0].tool_calls[0]"},
      {R"({"messages":[{"role":"assistant","content":null}]})", "messages[0].content"},
  };
  for (const auto& [body, parameter] : cases) {
    INFO(body);
    auto result = chat(body);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().parameter == parameter);
  }
}

TEST_CASE("response.create") {
  auto text = responses(R"({"type":"response.create","input":"hi","max_output_tokens":8,"store":false,"stream_id":"a","temperature":0})");
  REQUIRE(text.ok());
  CHECK(text->engine.items[0].role == "user");
  CHECK(text->engine.retention == messages::Retention::CONNECTION);
  CHECK(text->engine.lane == "a");
  CHECK(text->engine.max_tokens == 8);
  CHECK(text->echoed["temperature"] == 0);

  auto items = responses(R"({"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"c",
    "name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"},{"type":"reasoning","summary":[]}],
    "previous_response_id":"resp_1","instructions":"be kind","generate":false,"top_logprobs":2})");
  REQUIRE(items.ok());
  REQUIRE(items->engine.items.size() == 3);
  CHECK(items->engine.items[2].role == "tool");
  CHECK(items->engine.previous_response_id == "resp_1");
  CHECK(items->engine.retention == messages::Retention::MEMORY);
  CHECK(items->engine.max_tokens == 0);
  CHECK(items->engine.sampling.top_logprobs == 2);
  CHECK(responses(R"({"previous_response_id":"r"})").ok());

  for (auto [body, parameter] :
       std::vector<std::pair<std::string, std::string>>{{R"({})", "input"},
                                                        {R"({"input":[]})", "input"},
                                                        {R"({"input":5})", "input"},
                                                        {R"({"input":[{"type":"item_reference"}]})", "input[0].type"},
                                                        {R"({"input":[{"role":"user"}]})", "input[0].content"},
                                                        {R"({"input":[{"role":"bard","content":""}]})", "input[0].role"},
                                                        {R"({"input":[{"type":"function_call_output","output":"x"}]})", "input[0].call_id"},
                                                        {R"({"input":"x","max_output_tokens":0})", "max_output_tokens"},
                                                        {R"({"input":"x","text":{"format":{"type":"json_schema"}}})", "text.format.type"},
                                                        {R"({"input":"x","stream_id":4})", "stream_id"}}) {
    INFO(body);
    auto result = responses(body);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().parameter == parameter);
  }
}

TEST_CASE("error bodies have OpenAI's shape") {
  Error error = make_error(ErrorClass::kContextTooLong, ErrorReason::kContextLength, "too long \xff", "messages");
  auto body = json::parse(error_body(error));
  CHECK(body["error"]["type"] == "invalid_request_error");
  CHECK(body["error"]["code"] == "context_length_exceeded");
  CHECK(body["error"]["param"] == "messages");
  CHECK(http_status(ErrorClass::kContextTooLong) == 400);
  CHECK(retry_after_header(make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull, "", "", "", 1001)) == "Retry-After: 2\r\n");
  CHECK(retry_after_header(error).empty());
}
