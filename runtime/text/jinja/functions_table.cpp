// Global functions of templates.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <array>

namespace troupe::text::jinja {
namespace {

Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  constexpr std::size_t kMaxMessage = 500;
  const Text message = arguments.positional.empty() ? Text() : interpreter.text_of(arguments.positional[0], arguments.line);
  throw TemplateError(arguments.line, message.bytes().substr(0, kMaxMessage), true);
}

/// range(end), range(begin, end), range(begin, end, step)
Value range(Interpreter& interpreter, const Arguments& arguments) {
  constexpr std::size_t kMaxCount = 100'000;
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3) throw TemplateError(arguments.line, "range takes one to three integers");
  const auto number = [&](std::size_t index) { return expect_integer(given[index], "range's argument", arguments.line); };
  const std::int64_t begin = given.size() > 1 ? number(0) : 0, end = given.size() > 1 ? number(1) : number(0);
  const std::int64_t by = given.size() > 2 ? number(2) : 1;
  constexpr std::int64_t kMaxValue = std::int64_t{1} << 40;
  for (const std::int64_t value : {begin, end, by})
    if (value > kMaxValue || value < -kMaxValue) throw TemplateError(arguments.line, "range's argument is out of range");
  if (by == 0) throw TemplateError(arguments.line, "range's step is 0");
  List out;
  for (std::int64_t i = begin; by > 0 ? i < end : i > end; i += by) {
    if (out.size() >= kMaxCount) throw TemplateError(arguments.line, "range gives too many numbers");
    out.emplace_back(i);
  }
  return interpreter.made(std::move(out), arguments.line);
}

Value make_namespace(Interpreter&, const Arguments& arguments) {
  auto names = std::make_shared<Namespace>();
  for (const auto& [name, value] : arguments.named) names->attributes.set(Text(name, Origin::kTemplate), value);
  return Value(std::move(names));
}

Value make_dict(Interpreter&, const Arguments& arguments) {
  Dict dict;
  for (const auto& [name, value] : arguments.named) dict.set(Text(name, Origin::kTemplate), value);
  return Value(std::move(dict));
}

struct Row {
  const char* name;
  Value (*call)(Interpreter&, const Arguments&);
};
constexpr std::array kFunctions{Row{"dict", make_dict}, Row{"namespace", make_namespace}, Row{"raise_exception", raise_exception},
                                Row{"range", range}};

}  // namespace

void define_functions(Interpreter& interpreter) {
  for (const Row& row : kFunctions) interpreter.define(row.name, Value(Function(row.call)));
}

}  // namespace troupe::text::jinja
