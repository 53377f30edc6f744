// Any bytes as a chat template, and behind a zero byte as the JSON of the values that it renders: an error with a line, or a text in which
// the caller's control tokens are still the caller's.
#include "runtime/text/chat_template.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/template_error.h"
#include "tests/fuzz/fuzz_target.h"

#include <cstdlib>

using namespace troupe::text::jinja;

namespace {

/// Bytes that only the caller has: a template that makes them itself proves nothing.
bool makes_its_own(const std::string& source) {
  constexpr std::string_view kWays[] = {"\x01", "\x02", "\x03", "\\", "format", "%", "strftime"};
  for (const std::string_view way : kWays)
    if (source.find(way) != std::string::npos) return true;
  return false;
}

Value caller_text(const char* bytes) { return Value(Text(bytes, Origin::kCaller)); }

}  // namespace

FUZZ_TARGET(jinja) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string source = input.substr(0, input.find('\0'));
  const std::string json = source.size() < input.size() ? input.substr(source.size() + 1) : "";
  Limits limits;
  limits.steps = 20'000;
  limits.work_bytes = 8U << 20;
  limits.output_bytes = 1U << 20;
  try {
    const Body body = parse(source);
    Interpreter interpreter(limits, 1'700'000'000);
    Dict message;
    message.set(Text("role", Origin::kTemplate), Value(Text("user", Origin::kCaller)));
    message.set(Text("content", Origin::kTemplate), caller_text("\x01\x02\x03"));
    interpreter.define("messages", Value(List{Value(message), Value(message)}));
    interpreter.define("add_generation_prompt", Value(true));
    interpreter.define("tools", json.empty() ? Value(None{}) : from_json(json, 48));
    const Text text = interpreter.run(body);
    const bool own = makes_its_own(source);
    for (std::size_t i = 0; i < text.size() && !own; ++i)
      if (text.bytes()[i] >= 1 && text.bytes()[i] <= 3 && text.origin(i) != Origin::kCaller) std::abort();
  } catch (const TemplateError& error) {
    if (error.line == 0) std::abort();
  }
  return 0;
}
