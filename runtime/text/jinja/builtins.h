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
/// A method of values like this one; nullptr = there is none of that name.
const Method* find_method(const Value& value, std::string_view name);

/// range, namespace, dict, raise_exception, strftime_now.
void define_functions(Interpreter& interpreter);

// Shared by the tables.
/// < 0, 0 or > 0 as Python orders numbers, texts, lists; other pairs are errors.
int order_of(Interpreter& interpreter, const Value& left, const Value& right, std::size_t line);
/// Python's "..." % values: %s %r %d %i %f %x with flags, width and precision, and %(name)s of one mapping.
Value format_percent(Interpreter& interpreter, const Text& pattern, const Arguments& arguments);
/// Python's "...".format(...): {} {0} {name}, !s !r, and :[[fill]align][sign][#][0][width][,][.precision][type].
Value format_braces(Interpreter& interpreter, const Text& pattern, const Arguments& arguments);
/// What an attribute path such as "function.name" or "items.0" leads to; `path` may be an index.
Value follow_path(Interpreter& interpreter, Value value, const Value& path, std::size_t line);
const Text& expect_text(const Value& value, const char* where, std::size_t line);
std::int64_t expect_integer(const Value& value, const char* where, std::size_t line);
/// Elements to loop over: of a list, keys of a mapping, characters of a text; none for undefined. Others are errors.
List elements(Interpreter& interpreter, const Value& value, std::size_t line);
/// `sides`: 1 = front, 2 = back, 3 = both. `characters` empty: blanks, as Unicode knows them.
Text strip(const Text& text, std::string_view characters, int sides);
/// At most `count` times; negative: everywhere.
Text replace(Interpreter& interpreter, const Text& text, const Text& from, const Text& to, std::int64_t count, std::size_t line);
/// Bytes of the blank at the front of `text`; 0 = there is none.
std::size_t blank_length(std::string_view text);
Text upper(const Text& text);  // ASCII letters only, as lower, capitalize and title
Text lower(const Text& text);
Text capitalize(const Text& text);
Text title(const Text& text);

}  // namespace troupe::text::jinja
