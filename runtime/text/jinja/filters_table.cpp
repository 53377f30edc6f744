// Filters: value | name(arguments).
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/list_filters.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

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
    if (attribute != nullptr) element = follow_path(interpreter, element, *attribute, arguments.line);
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

/// tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false): transformers' filter, in whose order the arguments come.
Value json(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  constexpr std::int64_t kMaxIndent = 16;
  const std::size_t line = arguments.line;
  const Value *ascii = arguments.find(0, "ensure_ascii"), *indent = arguments.find(1, "indent");
  const Value *separators = arguments.find(2, "separators"), *sorted = arguments.find(3, "sort_keys");
  JsonStyle style;
  const std::int64_t width = indent == nullptr || indent->is_none() ? 0 : expect_integer(*indent, "tojson's indent", line);
  style.indent = static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, kMaxIndent));
  style.ascii_only = ascii != nullptr && ascii->truthy();
  style.sorted_keys = sorted != nullptr && sorted->truthy();
  style.between_items = Text(style.indent > 0 ? "," : ", ", Origin::kTemplate);
  style.between_key_and_value = Text(": ", Origin::kTemplate);
  if (separators != nullptr && !separators->is_none()) {
    if (separators->list() == nullptr || separators->list()->size() != 2)
      throw TemplateError(line, "tojson's separators must be two strings");
    style.between_items = expect_text((*separators->list())[0], "tojson's separator", line);
    style.between_key_and_value = expect_text((*separators->list())[1], "tojson's separator", line);
  }
  const std::size_t separator_bytes = style.between_items.size() + style.between_key_and_value.size() + style.indent * input.depth() + 2;
  interpreter.charge(std::size_t{input.weight()} * (2 + separator_bytes / 8), line);
  return interpreter.made(to_json(input, style, line), line);
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
  const Value* count = arguments.find(2, "count");
  return Value(replace(interpreter, interpreter.text_of(input, arguments.line), interpreter.text_of(*from, arguments.line),
                       interpreter.text_of(*to, arguments.line),
                       count == nullptr || count->is_none() ? -1 : expect_integer(*count, "replace's count", arguments.line),
                       arguments.line));
}

Value items(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (input.undefined() != nullptr) return Value(List());
  if (input.dict() == nullptr) throw TemplateError(arguments.line, "items needs a mapping");
  return find_method(input, "items")->call(interpreter, input, {{}, {}, arguments.line});
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
    Value found = follow_path(interpreter, element, *attribute, arguments.line);
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
    const Value tested = kByAttribute ? follow_path(interpreter, element, arguments.positional[0], line) : element;
    const bool holds = test == nullptr ? tested.truthy() : test->holds(interpreter, tested, rest);
    if (holds == kWanted) out.push_back(element);
  }
  return interpreter.made(std::move(out), line);
}

Value unchanged(Interpreter&, const Value& input, const Arguments&) { return input; }

/// What `attr` gives is never a mapping's entry, as in Jinja.
Value attr(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* name = arguments.find(0, "name");
  if (name == nullptr) throw TemplateError(arguments.line, "attr needs a name");
  const std::string& wanted = expect_text(*name, "attr's name", arguments.line).bytes();
  if (input.dict() != nullptr) return Value(Undefined{wanted});
  return interpreter.attribute(input, wanted, arguments.line);
}

Value format(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Text pattern = interpreter.text_of(input, arguments.line);
  return format_percent(interpreter, pattern, arguments);
}

/// escape: for HTML. The result is a plain string: nothing escapes it a second time, or escapes what it is joined to.
Value escape(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Text text = interpreter.text_of(input, arguments.line);
  interpreter.charge(5 * text.size(), arguments.line);
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '"'  ? "&#34;"
                                    : c == '\'' ? "&#39;"
                                                : "";
    out.append(entity.empty() ? std::string_view(&c, 1) : entity, text.origin(i));
  }
  return Value(std::move(out));
}

/// round(precision=0, method="common"): a float, rounded from its exact value, halves to even.
Value round(Interpreter&, const Value& input, const Arguments& arguments) {
  constexpr std::int64_t kMaxPrecision = 30;
  const Value *precision = arguments.find(0, "precision"), *method = arguments.find(1, "method");
  if (!input.is_number()) throw TemplateError(arguments.line, std::string("round of a value of type ") + input.type_name());
  const std::int64_t digits = precision == nullptr ? 0 : expect_integer(*precision, "round's precision", arguments.line);
  if (digits < 0 || digits > kMaxPrecision) throw TemplateError(arguments.line, "round's precision must be 0 to 30");
  const std::string how = method == nullptr ? "common" : expect_text(*method, "round's method", arguments.line).bytes();
  const double number = input.as_real(), scale = std::pow(10.0, static_cast<double>(digits));
  if (how == "ceil") return Value(std::ceil(number * scale) / scale);
  if (how == "floor") return Value(std::floor(number * scale) / scale);
  if (how != "common") throw TemplateError(arguments.line, "round's method must be common, ceil or floor");
  if (input.real() == nullptr) return input.integer() != nullptr ? input : Value(static_cast<std::int64_t>(number));
  std::array<char, 400> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), number);
  return Value(std::strtod(buffer.data(), nullptr));
}

constexpr std::array kFilters{
    Filter{"abs", absolute},
    Filter{"attr", attr},
    Filter{"batch", batch},
    Filter{"capitalize", changed<capitalize>},
    Filter{"count", length},
    Filter{"d", otherwise},
    Filter{"default", otherwise},
    Filter{"dictsort", dictsort},
    Filter{"e", escape},
    Filter{"escape", escape},
    Filter{"first", first},
    Filter{"float", real},
    Filter{"format", format},
    Filter{"groupby", groupby},
    Filter{"indent", indent},
    Filter{"int", integer},
    Filter{"items", items},
    Filter{"join", join},
    Filter{"last", last},
    Filter{"length", length},
    Filter{"list", list},
    Filter{"lower", changed<lower>},
    Filter{"map", map},
    Filter{"max", extreme<true>},
    Filter{"min", extreme<false>},
    Filter{"reject", select<false, false>},
    Filter{"rejectattr", select<true, false>},
    Filter{"replace", replaced},
    Filter{"reverse", reverse},
    Filter{"round", round},
    Filter{"safe", unchanged},
    Filter{"select", select<false, true>},
    Filter{"selectattr", select<true, true>},
    Filter{"slice", slice},
    Filter{"sort", sort},
    Filter{"string", string},
    Filter{"sum", sum},
    Filter{"title", changed<title>},
    Filter{"tojson", json},
    Filter{"trim", trim},
    Filter{"unique", unique},
    Filter{"upper", changed<upper>},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(), [&](const Filter& row) { return row.name == name; });
  return found == kFilters.end() ? nullptr : &*found;
}

}  // namespace troupe::text::jinja
