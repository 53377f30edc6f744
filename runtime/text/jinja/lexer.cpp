#include "runtime/text/jinja/lexer.h"

#include "runtime/text/jinja/template_error.h"
#include "runtime/text/utf8.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace troupe::text::jinja {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\v\f";
constexpr std::array<std::string_view, 24> kSymbols{"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~",
                                                    "<",  ">",  "=",  "|",  ".",  ",",  ":", "(", ")", "[", "]", "{"};

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      read_text();
      if (at_ < source_.size()) read_tag();
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw TemplateError(line_, what); }
  void add(TokenKind kind, std::string value) { tokens_.push_back({kind, std::move(value), line_}); }
  bool ahead(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void advance(std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) line_ += source_[at_ + i] == '\n' ? 1 : 0;
    at_ += bytes;
  }

  /// Text up to the next tag; what the tag's left side says about blanks is applied here.
  void read_text() {
    std::size_t end = at_;
    while (end < source_.size() && !is_tag(end)) ++end;
    std::string_view text = source_.substr(at_, end - at_);
    if (end < source_.size()) {
      const char control = end + 2 < source_.size() ? source_[end + 2] : '\0';
      if (control == '-')
        text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
      else if (source_[end + 1] != '{' && control != '+')
        text = strip_line_start(text);
    }
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    advance(end - at_);
  }

  bool is_tag(std::size_t at) const {
    return source_[at] == '{' && at + 1 < source_.size() && (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#');
  }

  /// lstrip_blocks: blanks between the beginning of a line and a block tag go.
  std::string_view strip_line_start(std::string_view text) const {
    const std::size_t last = text.find_last_not_of(" \t");
    if (last != std::string_view::npos) return text[last] == '\n' ? text.substr(0, last + 1) : text;
    const bool line_start = at_ == 0 || source_[at_ - 1] == '\n';
    return line_start ? std::string_view() : text;
  }

  void read_tag() {
    const char kind = source_[at_ + 1];
    if (kind == '#') return skip_comment();
    if (kind == '%' && read_raw()) return;
    add(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kStatementBegin, "");
    advance(2);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) advance(1);
    const std::string_view close = kind == '{' ? "}}" : "%}";
    depth_ = 0;
    while (!read_close(close)) read_token();
  }

  /// {% raw %} ... {% endraw %}: what stands between is text. False: another tag.
  bool read_raw() {
    const std::optional<RawTag> begin = raw_tag(at_, "raw");
    if (!begin || begin->right == '+') return false;
    advance(begin->end - at_);
    if (begin->right == '-') trim_after(true, false);
    for (std::size_t end = source_.find("{%", at_); end != std::string_view::npos; end = source_.find("{%", end + 1)) {
      const std::optional<RawTag> close = raw_tag(end, "endraw");
      if (!close) continue;
      std::string_view text = source_.substr(at_, end - at_);
      if (close->left == '-')
        text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
      else if (close->left != '+')
        text = strip_line_start(text);
      if (!text.empty()) add(TokenKind::kText, std::string(text));
      advance(close->end - at_);
      trim_after(close->right == '-', close->right != '+');
      return true;
    }
    fail("'endraw' is missing");
  }

  struct RawTag {
    char left, right;  // the blank controls, or '\0'
    std::size_t end;   // of the tag
  };
  /// The tag {% name %} at `at`, which holds "{%".
  std::optional<RawTag> raw_tag(std::size_t at, std::string_view name) const {
    const auto skip_blanks = [&] { at = std::min(source_.find_first_not_of(kBlanks, at), source_.size()); };
    const auto take_control = [&] {
      const char c = at < source_.size() ? source_[at] : '\0';
      if (c != '-' && c != '+') return '\0';
      ++at;
      return c;
    };
    at += 2;
    const char left = take_control();
    skip_blanks();
    if (!source_.substr(at).starts_with(name)) return std::nullopt;
    at += name.size();
    skip_blanks();
    const char right = take_control();
    if (!source_.substr(at).starts_with("%}")) return std::nullopt;
    return RawTag{left, right, at + 2};
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string_view::npos) fail("a comment is not closed");
    const char control = source_[end - 1];
    advance(end + 2 - at_);
    trim_after(control == '-', control != '+');
  }

  /// At the tag's end: adds the token, applies its blank control. Blanks before it are skipped.
  bool read_close(std::string_view close) {
    while (at_ < source_.size() && kBlanks.find(source_[at_]) != std::string_view::npos) advance(1);
    if (at_ >= source_.size()) fail("a tag is not closed");
    if (depth_ > 0) return false;  // }} of a nested dictionary
    const bool control = (source_[at_] == '-' || source_[at_] == '+') && source_.substr(at_ + 1).starts_with(close);
    if (!control && !ahead(close)) return false;
    const char sign = control ? source_[at_] : '\0';
    advance(control ? 3 : 2);
    const bool statement = close == "%}";
    add(statement ? TokenKind::kStatementEnd : TokenKind::kOutputEnd, "");
    trim_after(sign == '-', statement && sign != '+');
    return true;
  }

  /// After a tag: `all` blanks go, or (trim_blocks) just one newline.
  void trim_after(bool all, bool newline) {
    if (all)
      while (at_ < source_.size() && kBlanks.find(source_[at_]) != std::string_view::npos) advance(1);
    else if (newline && ahead("\n"))
      advance(1);
  }

  void read_token() {
    const char c = source_[at_];
    if (is_name_start(c)) return read_while(TokenKind::kName, is_name_part);
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    if (c == '}' && depth_ > 0) {
      --depth_;
      add(TokenKind::kSymbol, "}");
      return advance(1);
    }
    for (const std::string_view symbol : kSymbols) {
      if (!ahead(symbol)) continue;
      if (symbol == "{") ++depth_;
      add(TokenKind::kSymbol, std::string(symbol));
      return advance(symbol.size());
    }
    fail("a character that no expression can hold");
  }

  template <class Predicate>
  void read_while(TokenKind kind, Predicate part) {
    std::size_t end = at_;
    while (end < source_.size() && part(source_[end])) ++end;
    add(kind, std::string(source_.substr(at_, end - at_)));
    advance(end - at_);
  }

  /// Digits with single underscores between them; returns where they end. Appends the digits.
  std::size_t read_digits(std::size_t at, std::string& digits) const {
    const auto digit_at = [&](std::size_t i) { return i < source_.size() && is_digit(source_[i]); };
    while (digit_at(at) || (at < source_.size() && source_[at] == '_' && digit_at(at + 1) && at > 0 && is_digit(source_[at - 1]))) {
      if (source_[at] != '_') digits += source_[at];
      ++at;
    }
    return at;
  }

  void read_number() {
    std::string number;
    std::size_t end = read_digits(at_, number);
    bool real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      real = true;
      number += '.';
      end = read_digits(end + 1, number);
    }
    if (end + 1 < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const bool sign = source_[end + 1] == '+' || source_[end + 1] == '-';
      std::string exponent = sign && source_[end + 1] == '-' ? "e-" : "e";
      if (const std::size_t after = read_digits(end + (sign ? 2 : 1), exponent); is_digit(exponent.back())) {
        real = true;
        number += exponent;
        end = after;
      }
    }
    if (number.size() > (real ? 40U : 18U)) fail("a number with too many digits");
    add(real ? TokenKind::kReal : TokenKind::kInteger, std::move(number));
    advance(end - at_);
  }

  void read_string(char quote) {
    std::string value;
    std::size_t end = at_ + 1;
    for (; end < source_.size() && source_[end] != quote; ++end) {
      if (source_[end] != '\\') {
        value += source_[end];
        continue;
      }
      if (++end >= source_.size()) break;
      end = unescape(end, value);
    }
    if (end >= source_.size()) fail("a string is not closed");
    add(TokenKind::kString, std::move(value));
    advance(end + 1 - at_);
  }

  /// The escape whose letter stands at `at`; returns the place of its last character.
  std::size_t unescape(std::size_t at, std::string& value) const {
    const char letter = source_[at];
    constexpr std::string_view kLetters = "ntrbfva", kBytes = "\n\t\r\b\f\v\a";
    if (const std::size_t index = kLetters.find(letter); index != std::string_view::npos) {
      value += kBytes[index];
      return at;
    }
    if (letter >= '0' && letter <= '7') {  // octal, at most three digits
      std::size_t end = at;
      std::uint32_t code = 0;
      for (; end < at + 3 && end < source_.size() && source_[end] >= '0' && source_[end] <= '7'; ++end)
        code = code * 8 + static_cast<std::uint32_t>(source_[end] - '0');
      append_utf8(value, code);
      return end - 1;
    }
    if (letter == 'x' || letter == 'u' || letter == 'U') {
      const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      std::uint32_t code = 0;
      for (std::size_t i = 1; i <= digits; ++i) {
        if (at + i >= source_.size() || std::isxdigit(static_cast<unsigned char>(source_[at + i])) == 0)
          fail("a broken escape in a string");
        const char c = source_[at + i];
        code = code * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
      }
      if ((code >= 0xd800 && code < 0xe000) || code > 0x10ffff) fail("an escape in a string that is no character");
      append_utf8(value, code);
      return at + digits;
    }
    if (letter == '\n') return at;                                         // the line goes on
    if (letter != '\\' && letter != '\'' && letter != '"') value += '\\';  // Python keeps an unknown escape as it is
    value += letter;
    return at;
  }

  std::string_view source_;
  std::size_t at_ = 0, line_ = 1;
  std::size_t depth_ = 0;  // of braces inside the tag
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  std::string normal;  // Jinja reads every kind of line end as \n and drops the last one
  normal.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    normal += source[i] == '\r' ? '\n' : source[i];
  }
  if (normal.ends_with('\n')) normal.pop_back();
  return Lexer(normal).run();
}

}  // namespace troupe::text::jinja
