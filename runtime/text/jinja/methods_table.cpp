// Methods: value.name(arguments), of strings and mappings, with Python's meaning.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <array>
#include <cctype>

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
  const List candidates = given.is_tuple() ? *given.list() : List{given};
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
  const Value* count = arguments.find(2, "count");
  return Value(replace(interpreter, *self.text(), from, to,
                       count == nullptr ? -1 : expect_integer(*count, "replace's count", arguments.line), arguments.line));
}

/// The parts of split and rsplit, cut from the front or from the back.
class Splitter {
 public:
  Splitter(Interpreter& interpreter, const Value& self, const Arguments& arguments)
      : interpreter_(interpreter), text_(*self.text()), bytes_(text_.bytes()), line_(arguments.line) {
    const Value *separator = arguments.find(0, "sep"), *limit = arguments.find(1, "maxsplit");
    if (limit != nullptr) left_ = expect_integer(*limit, "split's maxsplit", line_);
    blanks_ = separator == nullptr || separator->is_none();
    if (!blanks_) between_ = expect_text(*separator, "split's separator", line_).bytes();
    if (!blanks_ && between_.empty()) throw TemplateError(line_, "split's separator is empty");
  }

  Value from_front() {
    std::size_t begin = blanks_ ? skip_blanks(0) : 0;
    while (left_ != 0) {
      const auto [end, next] = separator_behind(begin);
      if (end == std::string_view::npos) break;
      add(begin, end);
      begin = blanks_ ? skip_blanks(next) : next;
      --left_;
    }
    // A separator at the end leaves an empty part, blanks do not; the last part of a limited split keeps blanks behind it.
    if (!blanks_ || begin < bytes_.size()) add(begin, bytes_.size());
    return interpreter_.made(std::move(parts_), line_);
  }

  Value from_back() {
    std::size_t end = blanks_ ? trim_end(bytes_.size()) : bytes_.size();
    while (left_ != 0) {
      const std::size_t at = separator_before(end);
      if (at == std::string_view::npos) break;
      const std::size_t width = blanks_ ? blank_length(bytes_.substr(at)) : between_.size();
      add(at + width, end);
      end = blanks_ ? trim_end(at) : at;
      --left_;
    }
    if (!blanks_ || end > 0) add(0, end);
    std::reverse(parts_.begin(), parts_.end());
    return interpreter_.made(std::move(parts_), line_);
  }

 private:
  void add(std::size_t begin, std::size_t end) {
    interpreter_.step(line_);
    parts_.emplace_back(text_.slice(begin, end - begin));
  }
  std::size_t skip_blanks(std::size_t at) const {
    while (const std::size_t length = blank_length(bytes_.substr(at))) at += length;
    return at;
  }
  /// Before the blanks that end at `end`.
  std::size_t trim_end(std::size_t end) const { return strip(text_.slice(0, end), "", 2).size(); }
  std::pair<std::size_t, std::size_t> separator_behind(std::size_t begin) const {
    if (!blanks_) {
      const std::size_t found = bytes_.find(between_, begin);
      return {found, found + between_.size()};
    }
    for (std::size_t at = begin; at < bytes_.size(); ++at)
      if (const std::size_t length = blank_length(bytes_.substr(at))) return {at, at + length};
    return {std::string_view::npos, 0};
  }
  std::size_t separator_before(std::size_t end) const {
    if (!blanks_) return end < between_.size() ? std::string_view::npos : bytes_.rfind(between_, end - between_.size());
    for (std::size_t at = end; at > 0; --at)
      if (const std::size_t length = blank_length(bytes_.substr(at - 1)); length > 0 && at - 1 + length <= end) return at - 1;
    return std::string_view::npos;
  }

  Interpreter& interpreter_;
  const Text& text_;
  std::string_view bytes_;
  std::size_t line_;
  std::string between_;
  bool blanks_ = true;
  std::int64_t left_ = -1;
  List parts_;
};

Value split(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return Splitter(interpreter, self, arguments).from_front();
}
Value rsplit(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return Splitter(interpreter, self, arguments).from_back();
}

Value splitlines(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text& text = *self.text();
  const Value* keep = arguments.find(0, "keepends");
  List out;
  for (std::size_t begin = 0; begin < text.size();) {
    interpreter.step(arguments.line);
    const std::size_t end = std::min(text.bytes().find_first_of("\n\r", begin), text.size());
    const std::size_t mark = end == text.size() ? 0 : text.bytes().compare(end, 2, "\r\n") == 0 ? 2 : 1;
    out.emplace_back(text.slice(begin, end - begin + (keep != nullptr && keep->truthy() ? mark : 0)));
    begin = end + mark;
  }
  return interpreter.made(std::move(out), arguments.line);
}

const Text& text_argument(const Arguments& arguments, const char* method) {
  if (arguments.positional.empty()) throw TemplateError(arguments.line, std::string(method) + " needs a string");
  return expect_text(arguments.positional[0], method, arguments.line);
}
std::int64_t characters(const Text& text) { return static_cast<std::int64_t>(text.character_offsets().size()) - 1; }

/// The place of the first or last occurrence, in characters; -1 = none.
std::int64_t place_of(const Value& self, const Arguments& arguments, const char* method, bool last) {
  if (arguments.positional.size() > 1) throw TemplateError(arguments.line, std::string(method) + " with bounds is not supported");
  const std::string& part = text_argument(arguments, method).bytes();
  const std::size_t found = last ? self.text()->bytes().rfind(part) : self.text()->bytes().find(part);
  return found == std::string::npos ? -1 : characters(self.text()->slice(0, found));
}
Value find(Interpreter&, const Value& self, const Arguments& arguments) { return Value(place_of(self, arguments, "find", false)); }
Value rfind(Interpreter&, const Value& self, const Arguments& arguments) { return Value(place_of(self, arguments, "rfind", true)); }
Value index(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::int64_t place = place_of(self, arguments, "index", false);
  if (place < 0) throw TemplateError(arguments.line, "index: the string is not found");
  return Value(place);
}

Value count(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::string &text = self.text()->bytes(), &part = text_argument(arguments, "count").bytes();
  if (part.empty()) return Value(characters(*self.text()) + 1);
  std::int64_t number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++number;
  return Value(number);
}

template <bool kLast>
Value partition(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text &text = *self.text(), &part = text_argument(arguments, "partition");
  if (part.empty()) throw TemplateError(arguments.line, "partition's separator is empty");
  interpreter.charge(text.size(), arguments.line);
  const std::size_t found = kLast ? text.bytes().rfind(part.bytes()) : text.bytes().find(part.bytes());
  if (found == std::string::npos)
    return kLast ? Value::tuple({Value(Text()), Value(Text()), self}) : Value::tuple({self, Value(Text()), Value(Text())});
  return Value::tuple({Value(text.slice(0, found)), Value(part), Value(text.slice(found + part.size()))});
}

template <bool kFront>
Value remove_affix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text &text = *self.text(), &part = text_argument(arguments, "removeprefix");
  const bool there = kFront ? text.bytes().starts_with(part.bytes()) : text.bytes().ends_with(part.bytes());
  if (!there) return self;
  return interpreter.made(kFront ? text.slice(part.size()) : text.slice(0, text.size() - part.size()), arguments.line);
}

Value join_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() != 1) throw TemplateError(arguments.line, "join needs a list");
  Text out;
  bool first = true;
  for (const Value& element : elements(interpreter, arguments.positional[0], arguments.line)) {
    const Text& text = expect_text(element, "an element to join", arguments.line);
    interpreter.charge(text.size() + self.text()->size(), arguments.line);
    if (!first) out.append(*self.text());
    first = false;
    out.append(text);
  }
  return Value(std::move(out));
}

Value format_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return format_braces(interpreter, *self.text(), arguments);
}

/// isdigit and the like: of ASCII; other characters hold nothing that a template asks for.
template <int (*kHolds)(int)>
Value all_are(Interpreter&, const Value& self, const Arguments&) {
  const std::string& bytes = self.text()->bytes();
  return Value(!bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) { return c < 0x80 && kHolds(c) != 0; }));
}
/// isupper and islower: there are letters, and all of them are.
template <bool kUpper>
Value cased(Interpreter&, const Value& self, const Arguments&) {
  bool any = false;
  for (const char c : self.text()->bytes()) {
    const bool large = c >= 'A' && c <= 'Z', small = c >= 'a' && c <= 'z';
    if (kUpper ? small : large) return Value(false);
    any = any || large || small;
  }
  return Value(any);
}

/// ljust, rjust, center(width, fill) and zfill(width).
template <char kSide>
Value padded(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  constexpr std::int64_t kMaxWidth = 10'000;
  if (arguments.positional.empty()) throw TemplateError(arguments.line, "a width is missing");
  const std::int64_t width = expect_integer(arguments.positional[0], "a width", arguments.line);
  if (width > kMaxWidth) throw TemplateError(arguments.line, "a width above " + std::to_string(kMaxWidth));
  const Text fill = arguments.positional.size() > 1 ? expect_text(arguments.positional[1], "a fill character", arguments.line)
                                                    : Text(kSide == '0' ? "0" : " ", Origin::kTemplate);
  if (fill.size() != 1) throw TemplateError(arguments.line, "the fill must be one ASCII character");
  const Text& text = *self.text();
  const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(width - characters(text), 0));
  // Python's center gives the odd blank to the left only where the width is odd.
  const std::size_t left = kSide == 'l' ? 0 : kSide == 'c' ? missing / 2 + (missing & static_cast<std::size_t>(width) & 1) : missing;
  const bool sign = kSide == '0' && !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  Text out = text.slice(0, sign ? 1 : 0);
  for (std::size_t i = 0; i < left; ++i) out.append(fill);
  out.append(text.slice(sign ? 1 : 0));
  for (std::size_t i = left; i < missing; ++i) out.append(fill);
  return interpreter.made(std::move(out), arguments.line);
}

constexpr std::array kTextMethods{
    Method{"capitalize", changed<capitalize>},
    Method{"center", padded<'c'>},
    Method{"count", count},
    Method{"endswith", ends_with},
    Method{"find", find},
    Method{"format", format_method},
    Method{"index", index},
    Method{"isalnum", all_are<std::isalnum>},
    Method{"isalpha", all_are<std::isalpha>},
    Method{"isdigit", all_are<std::isdigit>},
    Method{"islower", cased<false>},
    Method{"isspace", all_are<std::isspace>},
    Method{"isupper", cased<true>},
    Method{"join", join_method},
    Method{"ljust", padded<'l'>},
    Method{"lower", changed<lower>},
    Method{"lstrip", strip_method<1>},
    Method{"partition", partition<false>},
    Method{"removeprefix", remove_affix<true>},
    Method{"removesuffix", remove_affix<false>},
    Method{"replace", replace_method},
    Method{"rfind", rfind},
    Method{"rjust", padded<'r'>},
    Method{"rpartition", partition<true>},
    Method{"rsplit", rsplit},
    Method{"rstrip", strip_method<2>},
    Method{"split", split},
    Method{"splitlines", splitlines},
    Method{"startswith", starts_with},
    Method{"strip", strip_method<3>},
    Method{"title", changed<title>},
    Method{"upper", changed<upper>},
    Method{"zfill", padded<'0'>},
};

Value items(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  List out;
  for (const auto& [key, value] : self.dict()->entries()) out.push_back(Value::tuple({Value(key), value}));
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

Value copy(Interpreter&, const Value& self, const Arguments&) { return self; }  // values never change

/// Templates run in the reference's immutable sandbox, where these are refused, too.
Value refused(Interpreter&, const Value&, const Arguments& arguments) {
  throw TemplateError(arguments.line, "a template may not change a list or a mapping; use a namespace, or + on lists");
}

constexpr std::array kDictMethods{Method{"clear", refused},   Method{"copy", copy},          Method{"get", get},
                                  Method{"items", items},     Method{"keys", keys},          Method{"pop", refused},
                                  Method{"popitem", refused}, Method{"setdefault", refused}, Method{"update", refused},
                                  Method{"values", values}};

Value index_of(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() != 1) throw TemplateError(arguments.line, "index needs one value");
  const List& list = *self.list();
  for (std::size_t i = 0; i < list.size(); ++i) {
    interpreter.step(arguments.line);
    if (apply_binary(interpreter, "==", list[i], arguments.positional[0], arguments.line).truthy())
      return Value(static_cast<std::int64_t>(i));
  }
  throw TemplateError(arguments.line, "index: the value is not in the list");
}
Value count_of(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() != 1) throw TemplateError(arguments.line, "count needs one value");
  std::int64_t number = 0;
  for (const Value& element : *self.list()) {
    interpreter.step(arguments.line);
    number += apply_binary(interpreter, "==", element, arguments.positional[0], arguments.line).truthy() ? 1 : 0;
  }
  return Value(number);
}

constexpr std::array kListMethods{Method{"append", refused},  Method{"clear", refused},  Method{"copy", copy},
                                  Method{"count", count_of},  Method{"extend", refused}, Method{"index", index_of},
                                  Method{"insert", refused},  Method{"pop", refused},    Method{"remove", refused},
                                  Method{"reverse", refused}, Method{"sort", refused}};

template <class Table>
const Method* find_row(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Method& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Method* find_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return find_row(kTextMethods, name);
  if (value.dict() != nullptr) return find_row(kDictMethods, name);
  if (value.list() != nullptr) return find_row(kListMethods, name);
  return nullptr;
}

}  // namespace troupe::text::jinja
