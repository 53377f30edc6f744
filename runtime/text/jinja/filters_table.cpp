// Filters: value | name(arguments).
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace troupe::text::jinja {
namespace {

Value trim(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* characters = arguments.find(0, "chars");
  const std::string set =
      characters == nullptr || characters->is_none() ? "" : expect_text(*characters, "trim's characters", arguments.line).bytes();
  return interpreter.made(strip(interpreter.text_of(input, arguments.line), set, 3), arguments.line);
}

Value length(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  std::size_t count = 0;
  if (const List* list = input.list())
    count = list->size();
  else if (const Dict* dict = input.dict())
    count = dict->entries().size();
  else if (const Text* text = input.text())
    count = text->character_offsets().size() - 1;
  else if (input.undefined() == nullptr)
    throw TemplateError(arguments.line, std::string("a value of type ") + input.type_name() + " has no length");
  interpreter.step(arguments.line);
  return Value(static_cast<std::int64_t>(count));
}

/// default(value, boolean=false): with true, any false value is replaced too.
Value otherwise(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* replacement = arguments.find(0, "default_value");
  const Value* also_false = arguments.find(1, "boolean");
  const bool absent = input.undefined() != nullptr || (also_false != nullptr && also_false->truthy() && !input.truthy());
  if (!absent) return input;
  return replacement == nullptr ? template_text("") : *replacement;
}

Value join(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* separator = arguments.find(0, "d");
  const Value* attribute = arguments.find(1, "attribute");
  const Text between = separator == nullptr ? Text() : interpreter.text_of(*separator, arguments.line);
  Text out;
  bool first = true;
  for (Value& element : elements(interpreter, input, arguments.line)) {
    if (attribute != nullptr)
      element = interpreter.attribute(element, expect_text(*attribute, "join's attribute", arguments.line).bytes(), arguments.line);
    const Text text = interpreter.text_of(element, arguments.line);
    interpreter.charge(text.size() + between.size(), arguments.line);
    if (!first) out.append(between);
    first = false;
    out.append(text);
  }
  return Value(std::move(out));
}

template <Text (*kChange)(const Text&)>
Value changed(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return interpreter.made(kChange(interpreter.text_of(input, arguments.line)), arguments.line);
}

Value json(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  constexpr std::int64_t kMaxIndent = 16;
  const Value* indent = arguments.find(0, "indent");
  const std::int64_t width = indent == nullptr || indent->is_none() ? 0 : expect_integer(*indent, "tojson's indent", arguments.line);
  interpreter.charge(2 * std::size_t{input.weight()}, arguments.line);
  return interpreter.made(to_json(input, static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, kMaxIndent)), arguments.line),
                          arguments.line);
}

Value string(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return interpreter.made(interpreter.text_of(input, arguments.line), arguments.line);
}

Value integer(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* fallback = arguments.find(0, "default");
  if (input.integer() != nullptr) return input;
  if (input.is_number() && std::fabs(input.as_real()) < 9e18) return Value(static_cast<std::int64_t>(input.as_real()));
  if (const Text* text = input.text()) {
    const std::string digits = strip(*text, "", 3).bytes();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size()) return Value(value);
  }
  return fallback == nullptr ? Value(std::int64_t{0}) : *fallback;
}

Value real(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* fallback = arguments.find(0, "default");
  if (input.is_number()) return Value(input.as_real());
  if (const Text* text = input.text()) {
    const std::string digits = strip(*text, "", 3).bytes();
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size()) return Value(value);
  }
  return fallback == nullptr ? Value(0.0) : *fallback;
}

Value absolute(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!input.is_number()) throw TemplateError(arguments.line, std::string("abs of a value of type ") + input.type_name());
  if (input.as_real() >= 0) return input;
  return apply_binary(interpreter, "-", Value(std::int64_t{0}), input, arguments.line);
}

Value list(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return Value(elements(interpreter, input, arguments.line));
}
Value first(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const List all = elements(interpreter, input, arguments.line);
  return all.empty() ? Value(Undefined{"first element"}) : all.front();
}
Value last(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const List all = elements(interpreter, input, arguments.line);
  return all.empty() ? Value(Undefined{"last element"}) : all.back();
}
Value reverse(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  List all = elements(interpreter, input, arguments.line);
  std::reverse(all.begin(), all.end());
  if (input.text() == nullptr) return Value(std::move(all));
  Text out;
  for (const Value& character : all) out.append(*character.text());
  return interpreter.made(std::move(out), arguments.line);
}

Value replaced(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value *from = arguments.find(0, "old"), *to = arguments.find(1, "new");
  if (from == nullptr || to == nullptr) throw TemplateError(arguments.line, "replace needs two strings");
  return Value(replace(interpreter, interpreter.text_of(input, arguments.line), interpreter.text_of(*from, arguments.line),
                       interpreter.text_of(*to, arguments.line), arguments.line));
}

Value items(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (input.undefined() != nullptr) return Value(List());
  if (input.dict() == nullptr) throw TemplateError(arguments.line, "items needs a mapping");
  return find_dict_method("items")->call(interpreter, input, arguments);
}

/// indent(width=4, first=false, blank=false): lines after the first are moved in.
Value indent(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value *width = arguments.find(0, "width"), *with_first = arguments.find(1, "first"), *with_blank = arguments.find(2, "blank");
  Text prefix;
  if (width != nullptr && width->text() != nullptr)
    prefix = *width->text();
  else
    prefix = Text(std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                  width == nullptr ? 4 : expect_integer(*width, "indent's width", arguments.line), 0, 256)),
                              ' '),
                  Origin::kTemplate);
  const Text text = interpreter.text_of(input, arguments.line);
  Text out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.bytes().find('\n', begin), text.size());
    const bool wanted =
        begin > 0 ? end > begin || (with_blank != nullptr && with_blank->truthy()) : with_first != nullptr && with_first->truthy();
    interpreter.charge(end - begin + prefix.size() + 1, arguments.line);
    if (wanted) out.append(prefix);
    out.append(text.slice(begin, end + 1 - begin));
    begin = end + 1;
  }
  return Value(std::move(out));
}

/// map(attribute="name", default=...) and map("filter", ...).
Value map(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value *attribute = arguments.find(1U << 20, "attribute"), *fallback = arguments.find(1U << 20, "default");
  List out;
  const Filter* filter = nullptr;
  Arguments rest;
  rest.line = arguments.line;
  if (attribute == nullptr) {
    if (arguments.positional.empty()) throw TemplateError(arguments.line, "map needs a filter or an attribute");
    filter = find_filter(expect_text(arguments.positional[0], "map's filter", arguments.line).bytes());
    if (filter == nullptr) throw TemplateError(arguments.line, "map names a filter that does not exist");
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    rest.named = arguments.named;
  }
  for (const Value& element : elements(interpreter, input, arguments.line)) {
    interpreter.step(arguments.line);
    if (filter != nullptr) {
      out.push_back(filter->apply(interpreter, element, rest));
      continue;
    }
    Value found = interpreter.attribute(element, expect_text(*attribute, "map's attribute", arguments.line).bytes(), arguments.line);
    out.push_back(found.undefined() != nullptr && fallback != nullptr ? *fallback : std::move(found));
  }
  return interpreter.made(std::move(out), arguments.line);
}

/// select("test", ...), selectattr("name", "test", ...) and their opposites.
template <bool kByAttribute, bool kWanted>
Value select(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  constexpr std::size_t kTestAt = kByAttribute ? 1 : 0;
  const std::size_t line = arguments.line;
  if (kByAttribute && arguments.positional.empty()) throw TemplateError(line, "selectattr needs an attribute");
  const Test* test = nullptr;
  Arguments rest;
  rest.line = line;
  if (arguments.positional.size() > kTestAt) {
    test = find_test(expect_text(arguments.positional[kTestAt], "the test's name", line).bytes());
    if (test == nullptr) throw TemplateError(line, "select names a test that does not exist");
    rest.positional.assign(arguments.positional.begin() + kTestAt + 1, arguments.positional.end());
  }
  List out;
  for (const Value& element : elements(interpreter, input, line)) {
    interpreter.step(line);
    const Value tested =
        kByAttribute ? interpreter.attribute(element, expect_text(arguments.positional[0], "the attribute", line).bytes(), line) : element;
    const bool holds = test == nullptr ? tested.truthy() : test->holds(interpreter, tested, rest);
    if (holds == kWanted) out.push_back(element);
  }
  return interpreter.made(std::move(out), line);
}

Value unchanged(Interpreter&, const Value& input, const Arguments&) { return input; }

constexpr std::array kFilters{
    Filter{"abs", absolute},
    Filter{"capitalize", changed<capitalize>},
    Filter{"count", length},
    Filter{"d", otherwise},
    Filter{"default", otherwise},
    Filter{"first", first},
    Filter{"float", real},
    Filter{"indent", indent},
    Filter{"int", integer},
    Filter{"items", items},
    Filter{"join", join},
    Filter{"last", last},
    Filter{"length", length},
    Filter{"list", list},
    Filter{"lower", changed<lower>},
    Filter{"map", map},
    Filter{"reject", select<false, false>},
    Filter{"rejectattr", select<true, false>},
    Filter{"replace", replaced},
    Filter{"reverse", reverse},
    Filter{"safe", unchanged},
    Filter{"select", select<false, true>},
    Filter{"selectattr", select<true, true>},
    Filter{"string", string},
    Filter{"title", changed<title>},
    Filter{"tojson", json},
    Filter{"trim", trim},
    Filter{"upper", changed<upper>},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(), [&](const Filter& row) { return row.name == name; });
  return found == kFilters.end() ? nullptr : &*found;
}

}  // namespace troupe::text::jinja
