// Any bytes as a chat template: an error with a line, or a text in which the caller's control tokens are still the caller's.
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/template_error.h"

#include <cstdlib>

using namespace troupe::text::jinja;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  Limits limits;
  limits.steps = 20'000;
  limits.work_bytes = 8U << 20;
  limits.output_bytes = 1U << 20;
  try {
    const Body body = parse(source);
    Interpreter interpreter(limits);
    Dict message;
    message.set(Text("role", Origin::kTemplate), Value(Text("user", Origin::kCaller)));
    message.set(Text("content", Origin::kTemplate), Value(Text("\x01\x02\x03", Origin::kCaller)));
    interpreter.define("messages", Value(List{Value(message), Value(message)}));
    interpreter.define("add_generation_prompt", Value(true));
    const Text text = interpreter.run(body);
    const bool templates_own = source.find_first_of("\x01\x02\x03\\") != std::string::npos;
    for (std::size_t i = 0; i < text.size() && !templates_own; ++i)
      if (text.bytes()[i] >= 1 && text.bytes()[i] <= 3 && text.origin(i) != Origin::kCaller) std::abort();
  } catch (const TemplateError& error) {
    if (error.line == 0) std::abort();
  }
  return 0;
}
