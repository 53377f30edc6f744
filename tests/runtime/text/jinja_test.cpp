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

Value from_json(const Json& json) {
  if (json.is_null()) return Value(None{});
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<std::int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  if (json.is_string()) return Value(Text(json.get<std::string>(), Origin::kCaller));
  if (json.is_array()) {
    List list;
    for (const Json& element : json) list.push_back(from_json(element));
    return Value(std::move(list));
  }
  Dict dict;
  for (const auto& [key, value] : json.items()) dict.set(Text(key, Origin::kTemplate), from_json(value));
  return Value(std::move(dict));
}

Text render(const std::string& source, const Json& context = Json::object(), const Limits& limits = {}) {
  const Body body = parse(source);
  Interpreter interpreter(limits);
  for (const auto& [name, value] : context.items()) interpreter.define(name, from_json(value));
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
  const auto lines = golden();
  REQUIRE(lines.size() > 120);
  const Json& context = lines[0].at("context");
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto source = lines[i].at("template").get<std::string>();
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
       }) {
    CAPTURE(source);
    CHECK_THROWS_AS(render(source, Json::object(), limits), TemplateError);
  }
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
