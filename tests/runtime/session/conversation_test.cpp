#include "runtime/session/conversation.h"

#include "runtime/session/context_limit.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::session;

TEST_CASE("a conversation survives its record") {
  const Conversation before{
      "be kind", {{"user", "hi \"there\"\n\xc3\xa9", "", "", ""}, {"assistant", "", "tool", "call_1", "{\"a\":1}"}}, "the answer"};
  const auto after = from_record(to_record(before));
  REQUIRE(after);
  CHECK(*after == before);
}

TEST_CASE("a foreign record is corrupted, not an exception") {
  for (const char* record : {"", "{", "[]", "{}", R"({"version":2})", R"({"version":"1"})",
                             R"({"version":1,"instructions":"","output":"","items":[],"tools":[]})", R"({"version":1})",
                             R"({"version":1,"instructions":3,"output":"","items":[]})",
                             R"({"version":1,"instructions":"","output":"","items":[{"role":"user"}]})"}) {
    CAPTURE(record);
    const auto read = from_record(record);
    REQUIRE_FALSE(read);
    CHECK(read.error().error_class == ErrorClass::kCorrupted);
  }
}

TEST_CASE("instructions belong to one response, items to all that follow") {
  const Conversation parent{"old rules", {{"user", "q", "", "", ""}}, "a"};
  const auto next = continue_conversation(parent, {{"user", "q2", "", "", ""}}, "new rules");
  const auto messages = to_chat_messages(next);
  REQUIRE(messages.size() == 4);
  CHECK(messages[0].role == "system");
  CHECK(messages[0].content == "new rules");
  CHECK(messages[2].role == "assistant");
  CHECK(messages[2].content == "a");
  CHECK(messages[3].content == "q2");
  CHECK(to_chat_messages({"", {{"developer", "x", "", "", ""}}, ""}).at(0).role == "system");
}

TEST_CASE("a prompt fits, or the error has both counts") {
  CHECK(*fit_context(10, kNone32, 100) == 90);
  CHECK(*fit_context(10, 90, 100) == 90);
  CHECK(*fit_context(10, 90, 0) == 90);
  CHECK(fit_scores(1000, 21, 1).ok());
  CHECK(fit_scores(1000, 6, 32).error().parameter == "logprobs");
  CHECK(*fit_context(100, 0, 100) == 0);  // prefill only
  CHECK_FALSE(fit_context(0, 1, 100));
  for (auto [prompt, wanted] : {std::pair{10U, 91U}, {100U, 1U}, {120U, kNone32}}) {
    const auto result = fit_context(prompt, wanted, 100);
    REQUIRE_FALSE(result);
    CHECK(result.error().error_class == ErrorClass::kContextTooLong);
    CHECK(result.error().client_text.find(" 100 ") != std::string::npos);
    CHECK(result.error().client_text.find(std::to_string(prompt)) != std::string::npos);
  }
}

TEST_CASE("text that no context can hold is refused by its size") {
  CHECK(fit_text(1000, 10, 100));
  CHECK(fit_text(SIZE_MAX, 10, 0));                           // context unknown
  CHECK(fit_text(std::size_t{1} << 34, 1U << 20, 1U << 20));  // the product needs 64 bits
  const auto result = fit_text(1001, 10, 100);
  REQUIRE_FALSE(result);
  CHECK(result.error().error_class == ErrorClass::kContextTooLong);
  for (const char* part : {" 100 tokens", "1001 bytes", " 1000."}) CHECK(result.error().client_text.find(part) != std::string::npos);
}

TEST_CASE("tool calls of one turn are one message, and results know their function") {
  const Conversation conversation{"",
                                  {{"user", "Weather?", "", "", ""},
                                   {"assistant", "Let me see.", "", "", ""},
                                   {"assistant", "", "weather", "c1", R"({"city": "Ulm"})"},
                                   {"assistant", "", "now", "c2", "{}"},
                                   {"tool", "21", "", "c1", ""},
                                   {"tool", "noon", "", "c2", ""},
                                   {"tool", "?", "", "made-up", ""},
                                   {"assistant", "And again:", "now", "c3", "{}"}},
                                  ""};
  const auto messages = to_chat_messages(conversation);
  REQUIRE(messages.size() == 6);
  CHECK(messages[1].content == "Let me see.");
  REQUIRE(messages[1].tool_calls.size() == 2);
  CHECK(messages[1].tool_calls[0].name == "weather");
  CHECK(messages[1].tool_calls[1].id == "c2");
  CHECK(messages[2].name == "weather");
  CHECK(messages[2].tool_call_id == "c1");
  CHECK(messages[3].name == "now");
  CHECK(messages[4].name.empty());
  CHECK(messages[5].content == "And again:");
  CHECK(messages[5].tool_calls.size() == 1);
}

TEST_CASE("tools are kept with the response that had them") {
  const Conversation first{"", {{"user", "Hi", "", "", ""}}, "Hello", R"([{"type":"function"}])"};
  CHECK(from_record(to_record(first)).value() == first);
  CHECK(continue_conversation(first, {}, "").tools_json.empty());
  CHECK(continue_conversation(first, {}, "", "[]").tools_json == "[]");
}
