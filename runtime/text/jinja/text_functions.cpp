// What filters and methods of texts share. Every byte keeps its origin.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <cctype>

namespace troupe::text::jinja {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\v\f";
char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

template <class Map>
Text mapped(const Text& text, Map map) {
  std::string bytes = text.bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = map(i, bytes[i]);
  return text.with_bytes(std::move(bytes));
}

}  // namespace

const Text& expect_text(const Value& value, const char* where, std::size_t line) {
  if (const Text* text = value.text()) return *text;
  if (const Undefined* undefined = value.undefined())
    throw TemplateError(line, std::string(where) + " must be a string, but '" + undefined->name + "' is undefined");
  throw TemplateError(line, std::string(where) + " must be a string, not " + value.type_name());
}

std::int64_t expect_integer(const Value& value, const char* where, std::size_t line) {
  if (const std::int64_t* number = value.integer()) return *number;
  if (const bool* flag = value.boolean()) return *flag ? 1 : 0;
  throw TemplateError(line, std::string(where) + " must be an integer, not " + value.type_name());
}

List elements(Interpreter& interpreter, const Value& value, std::size_t line) {
  List out;
  if (const List* list = value.list()) {
    out = *list;
  } else if (const Dict* dict = value.dict()) {
    for (const auto& [key, entry] : dict->entries()) out.emplace_back(key);
  } else if (const Text* text = value.text()) {
    interpreter.charge(text->size() * (sizeof(Value) + sizeof(Text)), line);
    const auto offsets = text->character_offsets();
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) out.emplace_back(text->slice(offsets[i], offsets[i + 1] - offsets[i]));
  } else if (value.undefined() == nullptr) {
    throw TemplateError(line, std::string("a value of type ") + value.type_name() + " has no elements");
  }
  interpreter.charge(out.size() * sizeof(Value), line);
  return out;
}

Text strip(const Text& text, std::string_view characters, int sides) {
  if (characters.empty()) characters = kBlanks;
  std::size_t begin = 0, end = text.size();
  const auto stripped = [&](std::size_t at) { return characters.find(text.bytes()[at]) != std::string_view::npos; };
  if ((sides & 1) != 0)
    while (begin < end && stripped(begin)) ++begin;
  if ((sides & 2) != 0)
    while (end > begin && stripped(end - 1)) --end;
  return text.slice(begin, end - begin);
}

Text replace(Interpreter& interpreter, const Text& text, const Text& from, const Text& to, std::size_t line) {
  Text out;
  std::size_t done = 0;
  while (!from.empty()) {
    const std::size_t found = text.bytes().find(from.bytes(), done);
    if (found == std::string::npos) break;
    interpreter.step(line);
    interpreter.charge(found - done + to.size(), line);
    out.append(text.slice(done, found - done)).append(to);
    done = found + from.size();
  }
  return out.append(text.slice(done));
}

Text upper(const Text& text) {
  return mapped(text, [](std::size_t, char c) { return to_upper(c); });
}
Text lower(const Text& text) {
  return mapped(text, [](std::size_t, char c) { return to_lower(c); });
}
Text capitalize(const Text& text) {
  return mapped(text, [](std::size_t i, char c) { return i == 0 ? to_upper(c) : to_lower(c); });
}
Text title(const Text& text) {
  const std::string& bytes = text.bytes();
  return mapped(text, [&](std::size_t i, char c) { return i > 0 && is_letter(bytes[i - 1]) ? to_lower(c) : to_upper(c); });
}

}  // namespace troupe::text::jinja
