// Global functions of templates.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <array>
#include <ctime>

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

/// dict(mapping or pairs, name=value ...)
Dict dict_of(Interpreter& interpreter, const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) throw TemplateError(arguments.line, "a mapping is made of at most one value and of named ones");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    interpreter.charge(from.weight(), arguments.line);
    if (from.dict() != nullptr) {
      dict = *from.dict();
    } else {
      for (const Value& pair : elements(interpreter, from, arguments.line)) {
        if (pair.list() == nullptr || pair.list()->size() != 2) throw TemplateError(arguments.line, "a mapping is made of pairs");
        dict.set(expect_text((*pair.list())[0], "a key of a mapping", arguments.line), (*pair.list())[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(Text(name, Origin::kTemplate), value);
  return dict;
}

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  auto names = std::make_shared<Namespace>();
  names->attributes = dict_of(interpreter, arguments);
  return Value(std::move(names));
}

Value make_dict(Interpreter& interpreter, const Arguments& arguments) { return Value(dict_of(interpreter, arguments)); }

/// The time of the rendering in local time, by strftime's pattern (ASCII).
Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  constexpr std::size_t kMaxPattern = 100;
  if (arguments.positional.size() != 1) throw TemplateError(arguments.line, "strftime_now needs a format");
  const Text& pattern = expect_text(arguments.positional[0], "strftime_now's format", arguments.line);
  if (pattern.size() > kMaxPattern) throw TemplateError(arguments.line, "strftime_now's format is longer than 100 bytes");
  const std::time_t now = interpreter.now();
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) throw TemplateError(arguments.line, "strftime_now: the time is out of range");
  std::array<char, 4096> buffer{};
  const std::size_t length = std::strftime(buffer.data(), buffer.size(), pattern.bytes().c_str(), &local);
  return interpreter.made(Text(std::string(buffer.data(), length), pattern.weakest_origin()), arguments.line);
}

struct Row {
  const char* name;
  Value (*call)(Interpreter&, const Arguments&);
};
constexpr std::array kFunctions{Row{"dict", make_dict}, Row{"namespace", make_namespace}, Row{"raise_exception", raise_exception},
                                Row{"range", range}, Row{"strftime_now", strftime_now}};

}  // namespace

void define_functions(Interpreter& interpreter) {
  for (const Row& row : kFunctions) interpreter.define(row.name, Value(Function(row.call)));
}

}  // namespace troupe::text::jinja
