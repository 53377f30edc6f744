// What filters and methods of texts share. Every byte keeps its origin.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"
#include "runtime/text/utf8.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace troupe::text::jinja {
namespace {

char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

template <class Map>
Text mapped(const Text& text, Map map) {
  std::string bytes = text.bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = map(i, bytes[i]);
  return text.with_bytes(std::move(bytes));
}

/// The character at the front, or at the back, of a text that is not empty; a byte outside valid UTF-8 counts as one.
std::string_view front_character(std::string_view text) {
  const Utf8Step step = utf8_step(text.substr(0, 4));
  return text.substr(0, step.kind == Utf8::kValid ? step.length : 1);
}
std::string_view back_character(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    if (const Utf8Step step = utf8_step(tail); step.kind == Utf8::kValid && step.length == length) return tail;
  }
  return text.substr(text.size() - 1);
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

std::size_t blank_length(std::string_view text) {
  if (text.empty()) return 0;
  const std::string_view character = front_character(text);
  if (character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    return (byte >= 0x09 && byte <= 0x0d) || (byte >= 0x1c && byte <= 0x20) ? 1 : 0;
  }
  const std::uint32_t code = utf8_code_point(character);
  const bool blank = code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
                     code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
  return blank ? character.size() : 0;
}

Value follow_path(Interpreter& interpreter, Value value, const Value& path, std::size_t line) {
  const auto element = [&](const Value& of, std::int64_t index) {
    const List* list = of.list();
    if (list == nullptr) return Value(Undefined{std::to_string(index)});
    if (index < 0) index += static_cast<std::int64_t>(list->size());
    return index < 0 || index >= static_cast<std::int64_t>(list->size()) ? Value(Undefined{"element"})
                                                                         : (*list)[static_cast<std::size_t>(index)];
  };
  if (path.integer() != nullptr) return element(value, *path.integer());
  std::string_view rest = expect_text(path, "an attribute", line).bytes();
  while (!rest.empty()) {
    interpreter.step(line);
    const std::string part(rest.substr(0, rest.find('.')));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && error == std::errc() && end == part.data() + part.size() && part[0] != '-';
    value = is_index && value.dict() == nullptr ? element(value, index) : interpreter.attribute(value, part, line);
  }
  return value;
}

Text strip(const Text& text, std::string_view characters, int sides) {
  std::string_view rest = text.bytes();
  const auto stripped = [&](std::string_view character) {
    return characters.empty() ? blank_length(character) > 0 : characters.find(character) != std::string_view::npos;
  };
  std::size_t begin = 0;
  while ((sides & 1) != 0 && !rest.empty() && stripped(front_character(rest))) {
    begin += front_character(rest).size();
    rest.remove_prefix(front_character(rest).size());
  }
  while ((sides & 2) != 0 && !rest.empty() && stripped(back_character(rest))) rest.remove_suffix(back_character(rest).size());
  return text.slice(begin, rest.size());
}

Text replace(Interpreter& interpreter, const Text& text, const Text& from, const Text& to, std::int64_t count, std::size_t line) {
  Text out;
  std::size_t done = 0;
  if (from.empty()) {  // Python puts `to` around every character
    const auto offsets = text.character_offsets();
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      interpreter.step(line);
      interpreter.charge(to.size() + 4, line);
      if (count != 0) {
        --count;
        out.append(to);
      }
      if (i + 1 < offsets.size()) out.append(text.slice(offsets[i], offsets[i + 1] - offsets[i]));
    }
    return out;
  }
  while (count != 0) {
    const std::size_t found = text.bytes().find(from.bytes(), done);
    if (found == std::string::npos) break;
    --count;
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
