// What templates find by name: filters, tests, methods of values, global functions. One table each; a new one is a row.
// The functions throw TemplateError; they charge the interpreter for texts and lists they make.
#pragma once
#include "runtime/text/jinja/interpreter.h"

#include <span>
#include <string_view>

namespace troupe::text::jinja {

struct Filter {
  std::string_view name;
  Value (*apply)(Interpreter&, const Value& input, const Arguments&);
};
const Filter* find_filter(std::string_view name);

struct Test {
  std::string_view name;
  bool (*holds)(Interpreter&, const Value& input, const Arguments&);
};
const Test* find_test(std::string_view name);

struct Method {
  std::string_view name;
  Value (*call)(Interpreter&, const Value& self, const Arguments&);
};
const Method* find_text_method(std::string_view name);
const Method* find_dict_method(std::string_view name);

/// range, namespace, dict, raise_exception.
void define_functions(Interpreter& interpreter);

// Shared by the tables.
const Text& expect_text(const Value& value, const char* where, std::size_t line);
std::int64_t expect_integer(const Value& value, const char* where, std::size_t line);
/// Elements to loop over: of a list, keys of a mapping, characters of a text; none for undefined. Others are errors.
List elements(Interpreter& interpreter, const Value& value, std::size_t line);
/// `sides`: 1 = front, 2 = back, 3 = both. `characters` empty: blanks.
Text strip(const Text& text, std::string_view characters, int sides);
Text replace(Interpreter& interpreter, const Text& text, const Text& from, const Text& to, std::size_t line);
Text upper(const Text& text);  // ASCII letters only, as lower, capitalize and title
Text lower(const Text& text);
Text capitalize(const Text& text);
Text title(const Text& text);

}  // namespace troupe::text::jinja
