// The template interpreter against the reference (tests/reference/jinja_reference.py), and what the reference does not have:
// origins of bytes, limits.
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/template_error.h"
#include "tests/support/random.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>

using namespace troupe;
using namespace troupe::text::jinja;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::time_t kNow = 1700000000;  // as in the reference

Text render(const std::string& source, const Json& context = Json::object(), const Limits& limits = {}) {
  const Body body = parse(source);
  Interpreter interpreter(limits, kNow);
  for (const auto& [name, value] : context.items()) interpreter.define(name, from_json(value.dump(), 64));
  return interpreter.run(body);
}

/// The caller's bytes of what is rendered.
std::string caller_part(const Text& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text.origin(i) == Origin::kCaller) out += text.bytes()[i];
  return out;
}

std::vector<Json> golden() {
  std::ifstream lines(TROUPE_TEST_DATA "/golden/jinja_cases.jsonl");
  std::vector<Json> out;
  for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line));
  return out;
}

}  // namespace

TEST_CASE("templates render as the reference renders them") {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto lines = golden();
  REQUIRE(lines.size() > 270);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto source = lines[i].at("template").get<std::string>();
    Json context = lines[0].at("context");
    if (lines[i].contains("context")) context.update(lines[i].at("context"));
    CAPTURE(i + 1, source);
    if (lines[i].contains("error")) {
      CHECK_THROWS_AS(render(source, context), TemplateError);
      continue;
    }
    try {
      CHECK(render(source, context).bytes() == lines[i].at("expected").get<std::string>());
    } catch (const TemplateError& error) {
      FAIL_CHECK("line " << error.line << ": " << error.what());
    }
  }
}

TEST_CASE("a caller's bytes stay the caller's through every operation") {
  const Json context{{"c", "<|im_end|>"}, {"l", {"<|a|>", "<|b|>"}}};
  CHECK(caller_part(render("{{ '<|x|>' + c + '<|y|>' }}", context)) == "<|im_end|>");
  CHECK(caller_part(render("{{ 'p' ~ c ~ 1 }}", context)) == "<|im_end|>");
  CHECK(caller_part(render("{{ c[2:8] }}{{ c[0] }}{{ c[::-1] }}", context)) == "im_end<>|dne_mi|<");
  CHECK(caller_part(render("{{ c | upper }}{{ c | trim('<') }}{{ c.strip('>') }}", context)) == "<|IM_END|>|im_end|><|im_end|");
  CHECK(caller_part(render("{{ l | join('<|sep|>') }}", context)) == "<|a|><|b|>");
  CHECK(caller_part(render("{{ c.split('_') | join('-') }}", context)) == "<|imend|>");
  CHECK(caller_part(render("{{ 'a_b' | replace('_', c) }}{{ c | replace('im', 'IM') }}", context)) == "<|im_end|><|_end|>");
  CHECK(caller_part(render("{{ c | tojson }}{{ l }}", context)) == "<|im_end|><|a|><|b|>");
  CHECK(caller_part(render("{% set b %}{{ c }}{% endset %}{{ b }}{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(c) }}", context)) ==
        "<|im_end|><|im_end|>");
  CHECK(caller_part(render("{% for x in c %}{{ x }}{% endfor %}{{ c * 2 }}{{ c | list | join }}", context)) ==
        "<|im_end|><|im_end|><|im_end|><|im_end|>");
  CHECK(caller_part(render("{{ c | indent(1, true) }}{{ c | reverse }}{{ c | string }}", context)) == "<|im_end|>>|dne_mi|<<|im_end|>");
}

TEST_CASE("a caller's bytes stay the caller's through formats, blocks, macros and lists") {
  const Json context{{"c", "<|im_end|>"}, {"l", {"<|b|>", "<|a|>"}}, {"o", {{"<|k|>", "v"}}}};
  CHECK(caller_part(render("{{ '<|x|>%s<|y|>' % c }}{{ '{:>12}'.format(c) }}{{ '%-12s|' | format(c) }}", context)) ==
        "<|im_end|><|im_end|><|im_end|>");
  CHECK(caller_part(render("{{ c % () }}{{ c.format() }}{{ '%r' % c }}", context)) == "<|im_end|><|im_end|><|im_end|>");
  CHECK(caller_part(render("{{ l | sort | join('<|sep|>') }}{{ l | min }}{{ l | unique | first }}", context)) == "<|a|><|b|><|a|><|b|>");
  CHECK(caller_part(render("{{ o | tojson }}{{ o | dictsort | first | first }}{{ o.items() | list }}", context)) == "<|k|>v<|k|><|k|>v");
  CHECK(caller_part(render("{{ c.partition('_') | join('<|>') }}{{ c.rsplit('_', 1) | join }}{{ c.removeprefix('<') }}", context)) ==
        "<|imend|><|imend|>|im_end|>");
  CHECK(caller_part(render("{{ c.center(14) }}{{ 'ab'.replace('', c) }}{{ c.splitlines()[0] }}{{ c | e }}", context)) ==
        "<|im_end|><|im_end|><|im_end|><|im_end|><|im_end|>&lt;|im_end|&gt;");
  CHECK(caller_part(render("{% filter upper %}<|x|>{{ c }}{% endfilter %}{% set b | trim %} {{ c }} {% endset %}{{ b }}"
                           "{% macro m() %}<|m|>{{ caller() }}{% endmacro %}{% call m() %}{{ c }}{% endcall %}"
                           "{% with w = c %}{{ w }}{% endwith %}",
                           context)) == "<|IM_END|><|im_end|><|im_end|><|im_end|>");
  CHECK(caller_part(render("{{ c | tojson(ensure_ascii=true) }}{{ strftime_now(c) }}{{ ', '.join(l) }}{{ l | batch(1) | list }}",
                           context)) == "<|im_end|><|im_end|><|b|><|a|><|b|><|a|>");
}

TEST_CASE("what is not supported is said where the template is compiled") {
  const auto error_of = [](const std::string& source) {
    try {
      parse(source);
    } catch (const TemplateError& error) {
      return std::to_string(error.line) + ": " + error.what();
    }
    return std::string();
  };
  CHECK(error_of("a\n{{ x | xmlattr }}").find("2: there is no filter 'xmlattr'") == 0);
  CHECK(error_of("a\n\n{% if x is escaped %}{% endif %}").find("3: there is no test 'escaped'") == 0);
  CHECK(error_of("{% include 'other' %}").find("1: this statement is not supported, found 'include'") == 0);
  CHECK(error_of("{% for x in y recursive %}{% endfor %}").find("recursive") != std::string::npos);
  CHECK_THROWS_WITH(render("{{ l.append(1) }}", Json{{"l", {1}}}), Catch::Contains("may not change"));
}

TEST_CASE("large mappings are looked up quickly") {
  Json large = Json::object();
  for (int i = 0; i < 20'000; ++i) large["key" + std::to_string(i)] = i;
  CHECK(render("{{ o.key0 }} {{ o['key19999'] }} {{ o | length }} {{ o.none is defined }}", Json{{"o", large}}).bytes() ==
        "0 19999 20000 False");
}

TEST_CASE("JSON of a caller") {
  CHECK(to_json(from_json(R"({"b": [1, -2, 1.5, true, null, "\u00e9"]})", 8),
                {0, Text(", ", Origin::kTemplate), Text(": ", Origin::kTemplate)}, 1)
            .bytes() == R"({"b": [1, -2, 1.5, true, null, "é"]})");
  CHECK(*from_json("18446744073709551615", 4).real() == 18446744073709551615.0);
  CHECK_THROWS_AS(from_json("{", 8), TemplateError);
  CHECK_THROWS_AS(from_json("", 8), TemplateError);
  CHECK_THROWS_AS(from_json("1e400", 8), TemplateError);
  CHECK_THROWS_AS(from_json(R"("\xff")", 8), TemplateError);
  CHECK_NOTHROW(from_json("[[[1]]]", 3));
  CHECK_THROWS_AS(from_json("[[[[1]]]]", 3), TemplateError);
  CHECK_THROWS_AS(from_json(std::string(1'000'000, '['), 64), TemplateError);
}

TEST_CASE("errors carry the line") {
  const auto line_of = [](const std::string& source) {
    try {
      render(source);
    } catch (const TemplateError& error) {
      return error.line;
    }
    return std::size_t{0};
  };
  CHECK(line_of("a\nb\n{{ missing.x }}") == 3);
  CHECK(line_of("a\n{% if true %}\n{{ 1 +\n }}") == 4);
  CHECK(line_of("a\n{{ 'x\n\ny' }}{{ none | length }}") == 4);
}

TEST_CASE("limits end what would not end") {
  Limits limits;
  limits.steps = 10'000;
  limits.work_bytes = 1 << 20;
  limits.output_bytes = 1 << 16;
  for (const char* source : {
           "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}",
           "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s == ns.s + [] }}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(9000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
           "{{ 'x' * 100000000 }}",
           "{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 2000 }}",
           "{{ range(1000000000) | length }}",
           "{{ 9223372036854775807 + 1 }}",
           "{{ 2 ** 10000 }}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{{ ('a' * 1000) | replace('a', 'b' * 1000) | replace('b', 'c' * 1000) }}",
           "{{ [0] * 100000000 }}",
           "{{ '%01000d' % 1 * 100000 }}",
           "{{ '{:999}'.format(1) * 100000 }}",
           "{{ ('ab' * 20000).replace('', 'x' * 1000) }}",
           "{% macro m(n) %}{{ caller(n) }}{% endmacro %}{% call(n) m(1) %}{{ m(n) }}{% endcall %}{{ m(1) }}",
           "{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}",
           "{% for i in range(99) %}{% macro m() %}{% endmacro %}{% for j in range(999) %}{{ m() }}{% endfor %}{% endfor %}",
           "{{ range(9000) | unique | list | length }}",
           "{{ range(9000) | map('string') | sort | list }}{{ range(9000) | map('string') | sort(reverse=true) | list }}",
           "{{ 'ab ' * 100000 | string }}{{ ('ab ' * 100000).split() }}",
           "{{ dict(range(9000) | batch(2)) }}",
           "{{ range(90000) | slice(90000) | list }}",
           "{{ strftime_now('%c' * 200) }}",
           "{{ {'a': 'x' * 100} | tojson(separators=('y' * 60000, 'z' * 60000)) }}{{ range(99) | list | tojson(separators=('y' * 60000, "
           "':')) }}",
       }) {
    CAPTURE(source);
    CHECK_THROWS_AS(render(source, Json::object(), limits), TemplateError);
  }
}

TEST_CASE("a caller's JSON keeps the order of its keys, however many; of equal ones the last value counts") {
  const JsonStyle style{.between_items = Text(",", Origin::kTemplate), .between_key_and_value = Text(":", Origin::kTemplate)};
  const auto again = [&](const std::string& json) { return to_json(from_json(json, 8), style, 1).bytes(); };
  for (const char* json : {R"({"b":{"z":1,"a":[{"y":null,"x":[]}]},"a":{}})", "[]", "3", R"([[[["x"]]]])"}) CHECK(again(json) == json);
  CHECK(again(R"({"b":[1],"a":2,"b":{"c":3}})") == R"({"b":{"c":3},"a":2})");
  std::string many = "{";
  for (int i = 100'000; i > 0; --i) many += "\"k" + std::to_string(i) + "\":1,";
  many.back() = '}';
  CHECK(again(many) == many);
  CHECK(from_json("[[[[[[[[]]]]]]]]", 8).depth() == 8);
  CHECK_THROWS_AS(from_json("[[[[[[[[[]]]]]]]]]", 8), TemplateError);
  for (const char* broken : {"[1", "[1]]", "{\"a\"}", "{\"a\":1,}", "1 2"}) CHECK_THROWS_AS(from_json(broken, 8), TemplateError);
}

TEST_CASE("deep nesting is refused, not recursed into") {
  const auto repeated = [](const std::string& part, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += part;
    return out;
  };
  for (const std::string& source : {
           "{{ " + repeated("(", 100'000) + "1" + repeated(")", 100'000) + " }}",
           "{{ " + repeated("[", 100'000) + " }}",
           "{{ " + repeated("not ", 100'000) + "1 }}",
           "{{ " + repeated("-", 100'000) + "1 }}",
           "{{ 1" + repeated(" + 1", 100'000) + " }}",
           "{{ a" + repeated(".a", 100'000) + " }}",
           "{{ a" + repeated(" | trim", 100'000) + " }}",
           "{{ 1" + repeated(" if 1 else 1", 100'000) + " }}",
           "{{ 2" + repeated(" ** 2", 100'000) + " }}",
           repeated("{% if 1 %}", 100'000),
           "{% if 1 %}" + repeated("{% elif 1 %}", 100'000) + "{% endif %}",
       })
    CHECK_THROWS_AS(render(source), TemplateError);
}

TEST_CASE("mutated templates fail cleanly or render") {
  const auto lines = golden();
  const Json& context = lines[0].at("context");
  test::SmallRandom random(77);
  Limits limits;
  limits.steps = 20'000;
  std::size_t rendered = 0;
  for (int round = 0; round < 3000; ++round) {
    auto source = lines[1 + random.below(lines.size() - 1)].at("template").get<std::string>();
    const auto other = lines[1 + random.below(lines.size() - 1)].at("template").get<std::string>();
    for (std::size_t n = random.below(4); n > 0 && !source.empty(); --n) {
      const std::size_t at = random.below(source.size());
      if (random.below(3) == 0)
        source.erase(at, 1 + random.below(4));
      else if (random.below(2) == 0)
        source.insert(at, other.substr(random.below(other.size() + 1), random.below(12)));
      else
        source[at] = "{}%#-+|.'\"()[]~=<>09 \nae\\"[random.below(25)];
    }
    try {
      render(source, context, limits);
      ++rendered;
    } catch (const TemplateError& error) {
      CHECK(error.line >= 1);
    }
  }
  CHECK(rendered > 100);
}
