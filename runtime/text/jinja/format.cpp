// Python's two ways to format: "%s" % x and "{}".format(x). What they do not support is an error, never another result.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

namespace troupe::text::jinja {
namespace {

constexpr std::size_t kMaxWidth = 1000;
constexpr std::size_t kMaxPrecision = 60;

/// One field's layout.
struct Layout {
  char fill = ' ', align = '\0', sign = '\0', type = '\0';
  bool alternate = false, thousands = false;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
};

class Formatter {
 public:
  Formatter(Interpreter& interpreter, const Text& pattern, const Arguments& arguments)
      : interpreter_(interpreter), pattern_(pattern), text_(pattern.bytes()), arguments_(arguments) {}

  Text percent() {
    while (at_ < text_.size()) {
      if (copy_until('%')) break;
      ++at_;
      if (take('%')) {
        put(at_ - 1, 1);
        continue;
      }
      std::optional<Value> by_name;
      if (take('(')) by_name = named(until(')'));
      Layout layout;
      while (at_ < text_.size() && std::string_view("-+ #0").find(text_[at_]) != std::string_view::npos) flag(layout, text_[at_++]);
      layout.width = number(kMaxWidth);
      if (take('.')) layout.precision = number(kMaxPrecision);
      layout.type = at_ < text_.size() ? text_[at_++] : '\0';
      if (std::string_view("srdifFeEgGxXo").find(layout.type) == std::string_view::npos || layout.type == '\0')
        fail("an unsupported conversion");
      if (layout.align == '\0') layout.align = '>';
      add(by_name ? *by_name : next(), layout);
    }
    if (used_ < arguments_.positional.size() && !by_mapping_) fail("not all values are used");
    return std::move(out_);
  }

  Text braces() {
    while (at_ < text_.size()) {
      const std::size_t brace = std::min(text_.find_first_of("{}", at_), text_.size());
      put(at_, brace - at_);
      at_ = brace;
      if (at_ == text_.size()) break;
      const char c = text_[at_++];
      if (take(c)) {
        put(at_ - 1, 1);
        continue;
      }
      if (c == '}') fail("a single '}'");
      Value value = field();
      Layout layout;
      if (take('!')) layout.type = at_ < text_.size() && (text_[at_] == 's' || text_[at_] == 'r') ? text_[at_++] : '?';
      if (take(':')) layout_of_braces(layout);
      if (!take('}')) fail("an unsupported replacement field");
      const bool integral = layout.type != '\0' && std::string_view("dxXo").find(layout.type) != std::string_view::npos;
      if (integral && value.real() != nullptr) fail("an integer is needed");
      if (layout.align == '\0') layout.align = value.is_number() && value.boolean() == nullptr ? '>' : '<';
      add(value, layout);
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw TemplateError(arguments_.line, "format: " + what); }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void put(std::size_t begin, std::size_t length) {
    interpreter_.charge(length, arguments_.line);
    out_.append(pattern_.slice(begin, length));
  }
  /// Copies up to `mark`; true at the end of the pattern.
  bool copy_until(char mark) {
    const std::size_t end = std::min(text_.find(mark, at_), text_.size());
    put(at_, end - at_);
    at_ = end;
    return at_ == text_.size();
  }
  std::string until(char mark) {
    const std::size_t end = text_.find(mark, at_);
    if (end == std::string::npos) fail(std::string("'") + mark + "' is missing");
    std::string name = text_.substr(at_, end - at_);
    at_ = end + 1;
    return name;
  }
  std::size_t number(std::size_t limit) {
    std::size_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + static_cast<std::size_t>(text_[at_++] - '0');
      if (value > limit) fail("a width or precision above " + std::to_string(limit));
    }
    return value;
  }

  const Value& next() {
    if (used_ >= arguments_.positional.size()) fail("too few values");
    return arguments_.positional[used_++];
  }
  /// %(name)s: of the one mapping that is given, or of named arguments.
  Value named(const std::string& name) {
    by_mapping_ = true;
    const Dict* dict = arguments_.positional.size() == 1 ? arguments_.positional[0].dict() : nullptr;
    const Value* found = dict != nullptr ? dict->find(name) : arguments_.find(arguments_.positional.size(), name);
    if (found == nullptr) fail("there is no value '" + name.substr(0, 40) + "'");
    return *found;
  }
  /// After "{": which value; the place stays before "!", ":" or "}".
  Value field() {
    const std::size_t end = std::min(text_.find_first_of("!:}[.{", at_), text_.size());
    const std::string name = text_.substr(at_, end - at_);
    at_ = end;
    if (name.empty()) return next();
    std::size_t index = 0;
    if (const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), index);
        error == std::errc() && last == name.data() + name.size()) {
      if (index >= arguments_.positional.size()) fail("too few values");
      return arguments_.positional[index];
    }
    const Value* found = arguments_.find(arguments_.positional.size(), name);
    if (found == nullptr) fail("there is no value '" + name.substr(0, 40) + "'");
    return *found;
  }

  static void flag(Layout& layout, char c) {
    if (c == '-') layout.align = '<';
    if (c == '+' || (c == ' ' && layout.sign == '\0')) layout.sign = c;
    if (c == '#') layout.alternate = true;
    if (c == '0') layout.fill = '0';
  }
  void layout_of_braces(Layout& layout) {
    constexpr std::string_view kAligns = "<>^=";
    const auto is_align = [&](std::size_t at) { return at < text_.size() && kAligns.find(text_[at]) != std::string_view::npos; };
    if (is_align(at_ + 1)) layout.fill = text_[at_++];
    if (is_align(at_)) layout.align = text_[at_++];
    if (at_ < text_.size() && std::string_view("+- ").find(text_[at_]) != std::string_view::npos) layout.sign = text_[at_++];
    layout.alternate = take('#');
    if (take('0') && layout.align == '\0') {
      layout.fill = '0';
      layout.align = '=';
    }
    layout.width = number(kMaxWidth);
    layout.thousands = take(',');
    if (take('.')) layout.precision = number(kMaxPrecision);
    if (at_ < text_.size() && std::string_view("sdfFeEgGxXo%").find(text_[at_]) != std::string_view::npos) {
      if (layout.type != '\0' && text_[at_] != 's') fail("a number's type behind a conversion");
      if (layout.type == '\0') layout.type = text_[at_];
      ++at_;
    }
  }

  void add(const Value& value, Layout layout) {
    const bool as_text =
        layout.type == 's' || layout.type == 'r' || (layout.type == '\0' && (value.boolean() != nullptr || !value.is_number()));
    if (as_text) {
      Text shown = layout.type == 'r' ? repr(value) : interpreter_.text_of(value, arguments_.line);
      const auto offsets = shown.character_offsets();
      std::size_t length = offsets.size() - 1;
      if (layout.precision && *layout.precision < length) {
        length = *layout.precision;
        shown = shown.slice(0, offsets[length]);
      }
      if (layout.align == '=') fail("'=' aligns numbers only");
      const bool zero_flag = layout.fill == '0' && layout.align == '>';
      return pad(shown, length, zero_flag ? ' ' : layout.fill, layout.align, layout.width, {});
    }
    if (!value.is_number()) fail(std::string("a number is needed, not ") + value.type_name());
    std::string digits = number_text(value, layout);
    std::string sign;
    if (digits.front() == '-') {
      sign.assign(1, '-');
      digits.erase(0, 1);
    } else if (layout.sign == '+' || layout.sign == ' ') {
      sign = layout.sign;
    }
    if (layout.thousands) group(digits);
    if (layout.fill == '0' && layout.align == '>') layout.align = '=';  // %05d
    pad(Text(digits, Origin::kTemplate), digits.size(), layout.fill, layout.align, layout.width, sign);
  }

  Text repr(const Value& value) {
    interpreter_.charge(value.weight(), arguments_.line);
    const Text whole = Value(List{value}).to_text();  // [repr]
    return whole.slice(1, whole.size() - 2);
  }

  std::string number_text(const Value& value, const Layout& layout) const {
    const bool integral = layout.type == '\0' ? value.real() == nullptr && !layout.precision
                                              : std::string_view("dixXo").find(layout.type) != std::string_view::npos;
    if (integral) {
      if (value.real() != nullptr && (layout.type != 'd' && layout.type != 'i')) fail("an integer is needed");
      if (!(std::fabs(value.as_real()) < 9e18)) fail("an integer is out of range");
      const std::int64_t integer = value.integer() != nullptr ? *value.integer() : static_cast<std::int64_t>(value.as_real());
      if (layout.type == 'x' || layout.type == 'X' || layout.type == 'o') {
        const std::uint64_t magnitude = integer < 0 ? 0 - static_cast<std::uint64_t>(integer) : static_cast<std::uint64_t>(integer);
        const char conversion[] = {'%', 'l', layout.type, '\0'};
        std::array<char, 32> buffer{};
        std::snprintf(buffer.data(), buffer.size(), conversion, magnitude);
        const std::string prefix = !layout.alternate ? "" : std::string("0") + layout.type;
        return (integer < 0 ? "-" : "") + prefix + buffer.data();
      }
      return std::to_string(integer);
    }
    if (layout.type == '\0' && !layout.precision) return value.to_text().bytes();
    const bool hundredths = layout.type == '%';
    const char type = hundredths ? 'f' : layout.type == '\0' ? 'g' : layout.type;
    const char conversion[] = {'%', '.', '*', type, '\0'};
    std::array<char, 400> buffer{};
    const double number = hundredths ? value.as_real() * 100 : value.as_real();
    std::snprintf(buffer.data(), buffer.size(), conversion, static_cast<int>(layout.precision.value_or(6)), number);
    std::string out = buffer.data();
    if (layout.type == '\0' && out.find_first_of(".en") == std::string::npos) out += ".0";
    return hundredths ? out + "%" : out;
  }

  static void group(std::string& digits) {
    std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    while (end > 3) digits.insert(end -= 3, 1, ',');
  }

  void pad(const Text& shown, std::size_t length, char fill, char align, std::size_t width, const std::string& sign) {
    length += sign.size();
    const std::size_t missing = width > length ? width - length : 0;
    const std::size_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    interpreter_.charge(missing + shown.size(), arguments_.line);
    if (align == '=') out_.append(sign, Origin::kTemplate);
    out_.append(std::string(left, fill), Origin::kTemplate);
    if (align != '=') out_.append(sign, Origin::kTemplate);
    out_.append(shown);
    out_.append(std::string(missing - left, fill), Origin::kTemplate);
  }

  Interpreter& interpreter_;
  const Text& pattern_;
  const std::string& text_;
  const Arguments& arguments_;
  std::size_t at_ = 0, used_ = 0;
  bool by_mapping_ = false;
  Text out_;
};

}  // namespace

Value format_percent(Interpreter& interpreter, const Text& pattern, const Arguments& arguments) {
  return Value(Formatter(interpreter, pattern, arguments).percent());
}
Value format_braces(Interpreter& interpreter, const Text& pattern, const Arguments& arguments) {
  return Value(Formatter(interpreter, pattern, arguments).braces());
}

}  // namespace troupe::text::jinja
