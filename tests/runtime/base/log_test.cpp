// Log lines: quoting, and the same fields as JSON.
#include "runtime/base/log.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace troupe::base;
using nlohmann::json;

namespace {

json parsed(std::string_view event, std::string_view fields) { return json::parse("{" + json_members(event, fields) + "}"); }

}  // namespace

TEST_CASE("a line as JSON") {
  CHECK(parsed("started", "") == json{{"event", "started"}});
  CHECK(parsed("request", "status=200 ms=1.5 route=/v1/models bytes=0") ==
        json{{"event", "request"}, {"status", 200}, {"ms", 1.5}, {"route", "/v1/models"}, {"bytes", 0}});
  // Only plain numbers are numbers, and never a quoted one: an id of digits stays a text.
  CHECK(parsed("e", "a=007 b=1.2.3 c=-1 d=1e5 e=. f=\"42\" g=12345678901234567890 h=1. i=0.5") == json{{"event", "e"},
                                                                                                       {"a", "007"},
                                                                                                       {"b", "1.2.3"},
                                                                                                       {"c", "-1"},
                                                                                                       {"d", "1e5"},
                                                                                                       {"e", "."},
                                                                                                       {"f", "42"},
                                                                                                       {"g", "12345678901234567890"},
                                                                                                       {"h", "1."},
                                                                                                       {"i", 0.5}});
  CHECK(parsed("e", "flag  a= b=\"\"") == json{{"event", "e"}, {"flag", true}, {"a", ""}, {"b", ""}});
}

TEST_CASE("whatever a quoted value holds, the line stays one line of valid JSON") {
  for (const std::string& text : {std::string("two words"), std::string("a \"quoted\" = \\ value"), std::string("line\r\nbreak\tand\x01"),
                                  std::string("caf\xc3\xa9"), std::string("cut \xc3"), std::string("\xff\xfe"), std::string("\\")}) {
    INFO(text);
    const auto line = json_members("e", "before=1 text=" + log_value(text) + " after=2");
    CHECK(line.find('\n') == std::string::npos);
    const auto read = json::parse("{" + line + "}");
    CHECK(read["before"] == 1);
    CHECK(read["after"] == 2);
    CHECK(read.size() == 4);
  }
  CHECK(parsed("e", "text=" + log_value("a \"b\" \\ c"))["text"] == "a \"b\" \\ c");
  for (const char* cut : {"a=\"no end", "a=\"\\", "=", "= =", "\""}) CHECK_NOTHROW(parsed("e", cut));
}

TEST_CASE("names of levels and formats") {
  CHECK_FALSE(set_log_level("loud"));
  CHECK_FALSE(set_log_format("xml"));
  CHECK(set_log_level("error"));
  CHECK_FALSE(log_enabled(LogLevel::kWarning));
  CHECK(set_log_level("warning"));
  CHECK(log_enabled(LogLevel::kWarning));
}
