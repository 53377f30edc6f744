#include "runtime/text/jinja/list_filters.h"

#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>

namespace troupe::text::jinja {
namespace {

/// What an element is ordered by: texts in lower case unless case matters.
Value folded(Interpreter& interpreter, const Value& value, bool case_sensitive, std::size_t line) {
  if (case_sensitive || value.text() == nullptr) return value;
  return interpreter.made(lower(*value.text()), line);
}

bool truthy(const Value* value) { return value != nullptr && value->truthy(); }
const Value* unless_none(const Value* value) { return value == nullptr || value->is_none() ? nullptr : value; }

Value key_of(Interpreter& interpreter, const Value& element, const Value* attribute, bool case_sensitive, std::size_t line) {
  const Value key = attribute == nullptr ? element : follow_path(interpreter, element, *attribute, line);
  return folded(interpreter, key, case_sensitive, line);
}

struct Keyed {
  Value key, element;
};

void sort_by_key(Interpreter& interpreter, std::vector<Keyed>& items, bool reverse, std::size_t line) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    interpreter.step(line);
    const int order = order_of(interpreter, a.key, b.key, line);
    return reverse ? order > 0 : order < 0;
  });
}

Value elements_of(Interpreter& interpreter, std::vector<Keyed> items, std::size_t line) {
  List out;
  for (Keyed& item : items) out.push_back(std::move(item.element));
  return interpreter.made(std::move(out), line);
}

}  // namespace

Value sort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::size_t line = arguments.line;
  const bool case_sensitive = truthy(arguments.find(1, "case_sensitive"));
  const Value* attribute = unless_none(arguments.find(2, "attribute"));
  std::vector<Keyed> items;
  for (Value& element : elements(interpreter, input, line)) {
    Value key;
    if (attribute != nullptr && attribute->text() != nullptr && attribute->text()->bytes().find(',') != std::string::npos) {
      List keys;
      std::string_view rest = attribute->text()->bytes();
      while (!rest.empty()) {
        const std::string_view name = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(name.size() + 1, rest.size()));
        const Value path = template_text(std::string(name));
        keys.push_back(key_of(interpreter, element, &path, case_sensitive, line));
      }
      key = Value(std::move(keys));
    } else {
      key = key_of(interpreter, element, attribute, case_sensitive, line);
    }
    items.push_back({std::move(key), std::move(element)});
  }
  sort_by_key(interpreter, items, truthy(arguments.find(0, "reverse")), line);
  return elements_of(interpreter, std::move(items), line);
}

Value unique(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::size_t line = arguments.line;
  const bool case_sensitive = truthy(arguments.find(0, "case_sensitive"));
  const Value* attribute = unless_none(arguments.find(1, "attribute"));
  List seen, out;
  for (Value& element : elements(interpreter, input, line)) {
    const Value key = key_of(interpreter, element, attribute, case_sensitive, line);
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& one) {
      interpreter.step(line);
      return apply_binary(interpreter, "==", one, key, line).truthy();
    });
    if (known) continue;
    seen.push_back(key);
    out.push_back(std::move(element));
  }
  return interpreter.made(std::move(out), line);
}

Value dictsort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::size_t line = arguments.line;
  if (input.dict() == nullptr) throw TemplateError(line, std::string("dictsort of a value of type ") + input.type_name());
  const bool case_sensitive = truthy(arguments.find(0, "case_sensitive"));
  const Value* by = arguments.find(1, "by");
  const std::string wanted = by == nullptr ? "key" : expect_text(*by, "dictsort's by", line).bytes();
  if (wanted != "key" && wanted != "value") throw TemplateError(line, "dictsort's by must be 'key' or 'value'");
  std::vector<Keyed> items;
  for (const auto& [key, value] : input.dict()->entries())
    items.push_back({folded(interpreter, wanted == "key" ? Value(key) : value, case_sensitive, line), Value::tuple({Value(key), value})});
  sort_by_key(interpreter, items, truthy(arguments.find(2, "reverse")), line);
  return elements_of(interpreter, std::move(items), line);
}

Value groupby(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::size_t line = arguments.line;
  const Value *attribute = arguments.find(0, "attribute"), *otherwise = arguments.find(1, "default");
  if (attribute == nullptr) throw TemplateError(line, "groupby needs an attribute");
  const bool case_sensitive = truthy(arguments.find(2, "case_sensitive"));
  std::vector<Keyed> items;
  for (Value& element : elements(interpreter, input, line)) {
    Value key = follow_path(interpreter, element, *attribute, line);
    if (key.undefined() != nullptr && otherwise != nullptr) key = *otherwise;
    items.push_back({folded(interpreter, key, case_sensitive, line), std::move(element)});
  }
  sort_by_key(interpreter, items, false, line);
  List out;
  for (std::size_t begin = 0; begin < items.size();) {
    std::size_t end = begin;
    List group;
    for (; end < items.size() && order_of(interpreter, items[begin].key, items[end].key, line) == 0; ++end)
      group.push_back(items[end].element);
    const Value shown = follow_path(interpreter, items[begin].element, *attribute, line);  // as it is written in the first of the group
    out.push_back(Value::tuple({shown.undefined() != nullptr ? items[begin].key : shown, interpreter.made(std::move(group), line)}));
    begin = end;
  }
  return interpreter.made(std::move(out), line);
}

Value sum(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value *attribute = unless_none(arguments.find(0, "attribute")), *start = arguments.find(1, "start");
  Value total = start == nullptr ? Value(std::int64_t{0}) : *start;
  for (const Value& element : elements(interpreter, input, arguments.line)) {
    interpreter.step(arguments.line);
    const Value value = attribute == nullptr ? element : follow_path(interpreter, element, *attribute, arguments.line);
    total = apply_binary(interpreter, "+", total, value, arguments.line);
  }
  return total;
}

namespace {
/// batch's and slice's number.
std::size_t positive(const Arguments& arguments, const char* name) {
  constexpr std::int64_t kMax = 100'000;
  const Value* given = arguments.find(0, name);
  if (given == nullptr) throw TemplateError(arguments.line, std::string(name) + " is missing");
  const std::int64_t number = expect_integer(*given, name, arguments.line);
  if (number < 1 || number > kMax) throw TemplateError(arguments.line, std::string(name) + " must be 1 to " + std::to_string(kMax));
  return static_cast<std::size_t>(number);
}
}  // namespace

Value batch(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::size_t size = positive(arguments, "linecount");
  const Value* fill = unless_none(arguments.find(1, "fill_with"));
  const List all = elements(interpreter, input, arguments.line);
  List out;
  for (std::size_t begin = 0; begin < all.size(); begin += size) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    List part(first, first + static_cast<std::ptrdiff_t>(std::min(size, all.size() - begin)));
    if (fill != nullptr) part.resize(size, *fill);
    out.push_back(interpreter.made(std::move(part), arguments.line));
  }
  return interpreter.made(std::move(out), arguments.line);
}

Value slice(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::size_t count = positive(arguments, "slices");
  const Value* fill = unless_none(arguments.find(1, "fill_with"));
  const List all = elements(interpreter, input, arguments.line);
  const std::size_t small = all.size() / count, larger = all.size() % count;  // the first `larger` lists have one more
  List out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    interpreter.step(arguments.line);
    const std::size_t size = small + (i < larger ? 1 : 0);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    List part(first, first + static_cast<std::ptrdiff_t>(size));
    if (fill != nullptr && i >= larger) part.push_back(*fill);
    out.push_back(interpreter.made(std::move(part), arguments.line));
    begin += size;
  }
  return interpreter.made(std::move(out), arguments.line);
}

Value extreme_of(Interpreter& interpreter, const Value& input, const Arguments& arguments, bool largest) {
  const std::size_t line = arguments.line;
  const bool case_sensitive = truthy(arguments.find(0, "case_sensitive"));
  const Value* attribute = unless_none(arguments.find(1, "attribute"));
  Value best(Undefined{"element of an empty list"}), best_key;
  bool first = true;
  for (Value& element : elements(interpreter, input, line)) {
    interpreter.step(line);
    Value key = key_of(interpreter, element, attribute, case_sensitive, line);
    const int order = first ? 0 : order_of(interpreter, key, best_key, line);
    if (!first && (largest ? order <= 0 : order >= 0)) continue;
    first = false;
    best = std::move(element);
    best_key = std::move(key);
  }
  return best;
}

}  // namespace troupe::text::jinja
