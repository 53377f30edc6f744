// Methods: value.name(arguments), of strings and mappings, with Python's meaning.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <array>

namespace troupe::text::jinja {
namespace {

template <int kSides>
Value strip_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Value* characters = arguments.find(0, "chars");
  const std::string set =
      characters == nullptr || characters->is_none() ? "" : expect_text(*characters, "strip's characters", arguments.line).bytes();
  return interpreter.made(strip(*self.text(), set, kSides), arguments.line);
}

template <Text (*kChange)(const Text&)>
Value changed(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return interpreter.made(kChange(*self.text()), arguments.line);
}

/// Whether `predicate` holds for the argument, or for any of a tuple of them.
template <class Predicate>
Value any_of_argument(const Arguments& arguments, Predicate predicate) {
  if (arguments.positional.empty()) throw TemplateError(arguments.line, "a string is missing");
  const Value& given = arguments.positional[0];
  const List candidates = given.list() != nullptr ? *given.list() : List{given};
  return Value(std::any_of(candidates.begin(), candidates.end(), [&](const Value& candidate) {
    return predicate(expect_text(candidate, "the argument", arguments.line).bytes());
  }));
}

Value starts_with(Interpreter&, const Value& self, const Arguments& arguments) {
  return any_of_argument(arguments, [&](const std::string& part) { return self.text()->bytes().starts_with(part); });
}
Value ends_with(Interpreter&, const Value& self, const Arguments& arguments) {
  return any_of_argument(arguments, [&](const std::string& part) { return self.text()->bytes().ends_with(part); });
}

Value replace_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() < 2) throw TemplateError(arguments.line, "replace needs two strings");
  const Text& from = expect_text(arguments.positional[0], "replace's first argument", arguments.line);
  const Text& to = expect_text(arguments.positional[1], "replace's second argument", arguments.line);
  return Value(replace(interpreter, *self.text(), from, to, arguments.line));
}

/// split(separator=None, maxsplit=-1): without a separator, at runs of blanks.
Value split(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  constexpr std::string_view kBlanks = " \t\n\r\v\f";
  const Text& text = *self.text();
  const Value *separator = arguments.find(0, "sep"), *limit = arguments.find(1, "maxsplit");
  std::int64_t left = limit == nullptr ? -1 : expect_integer(*limit, "split's maxsplit", arguments.line);
  const bool blanks = separator == nullptr || separator->is_none();
  const std::string between = blanks ? "" : expect_text(*separator, "split's separator", arguments.line).bytes();
  if (!blanks && between.empty()) throw TemplateError(arguments.line, "split's separator is empty");
  List out;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end) {
    interpreter.step(arguments.line);
    out.emplace_back(text.slice(begin, end - begin));
  };
  for (;;) {
    if (blanks) begin = std::min(text.bytes().find_first_not_of(kBlanks, begin), text.size());
    if (blanks && begin == text.size()) break;
    std::size_t end = blanks ? text.bytes().find_first_of(kBlanks, begin) : text.bytes().find(between, begin);
    if (left == 0 || end == std::string::npos) end = text.size();
    add(end);
    if (end == text.size()) break;
    begin = end + (blanks ? 1 : between.size());
    --left;
    if (!blanks && begin == text.size()) {
      add(begin);  // a separator at the end leaves an empty part
      break;
    }
  }
  return interpreter.made(std::move(out), arguments.line);
}

Value find(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError(arguments.line, "find needs a string");
  const std::size_t found = self.text()->bytes().find(expect_text(arguments.positional[0], "find's argument", arguments.line).bytes());
  if (found == std::string::npos) return Value(std::int64_t{-1});
  return Value(static_cast<std::int64_t>(self.text()->slice(0, found).character_offsets().size() - 1));
}

constexpr std::array kTextMethods{
    Method{"capitalize", changed<capitalize>},
    Method{"endswith", ends_with},
    Method{"find", find},
    Method{"lower", changed<lower>},
    Method{"lstrip", strip_method<1>},
    Method{"replace", replace_method},
    Method{"rstrip", strip_method<2>},
    Method{"split", split},
    Method{"startswith", starts_with},
    Method{"strip", strip_method<3>},
    Method{"title", changed<title>},
    Method{"upper", changed<upper>},
};

Value items(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  List out;
  for (const auto& [key, value] : self.dict()->entries()) out.emplace_back(List{Value(key), value});
  return interpreter.made(std::move(out), arguments.line);
}
Value keys(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return Value(elements(interpreter, self, arguments.line));
}
Value values(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  List out;
  for (const auto& [key, value] : self.dict()->entries()) out.push_back(value);
  return interpreter.made(std::move(out), arguments.line);
}
Value get(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError(arguments.line, "get needs a key");
  const Value* found = self.dict()->find(expect_text(arguments.positional[0], "get's key", arguments.line).bytes());
  if (found != nullptr) return *found;
  return arguments.positional.size() > 1 ? arguments.positional[1] : Value(None{});
}

constexpr std::array kDictMethods{Method{"get", get}, Method{"items", items}, Method{"keys", keys}, Method{"values", values}};

template <class Table>
const Method* find_row(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Method& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Method* find_text_method(std::string_view name) { return find_row(kTextMethods, name); }
const Method* find_dict_method(std::string_view name) { return find_row(kDictMethods, name); }

}  // namespace troupe::text::jinja
