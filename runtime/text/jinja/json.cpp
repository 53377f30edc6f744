// tojson, a Value as JSON text; and a caller's JSON text as a Value.
#include "runtime/text/jinja/template_error.h"
#include "runtime/text/jinja/value.h"

#include "runtime/text/utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace troupe::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, std::size_t line) : style_(style), line_(line) {}
  Text take() { return std::move(out_); }

  void write(const Value& value) {
    if (const Text* text = value.text()) return write_text(*text);
    if (const List* list = value.list()) return write_list(*list);
    if (const Dict* dict = value.dict()) return write_dict(*dict);
    if (value.is_none()) return put("null");
    if (const bool* flag = value.boolean()) return put(*flag ? "true" : "false");
    if (value.real() != nullptr && !std::isfinite(*value.real()))
      return put(std::isnan(*value.real()) ? "NaN" : *value.real() > 0 ? "Infinity" : "-Infinity");
    if (!value.is_number()) throw TemplateError(line_, std::string("tojson cannot write a value of type ") + value.type_name());
    out_.append(value.to_text());
  }

 private:
  void put(std::string_view bytes) { out_.append(bytes, Origin::kTemplate); }

  void write_text(const Text& text) {
    put("\"");
    for (std::size_t i = 0; i < text.size();) {
      const std::string_view rest = std::string_view(text.bytes()).substr(i, 4);
      const Utf8Step step = utf8_step(rest);
      const bool wide = style_.ascii_only && step.kind == Utf8::kValid && step.length > 1;
      out_.append(wide ? ascii(utf8_code_point(rest.substr(0, step.length))) : escaped(text.bytes()[i]), text.origin(i));
      i += wide ? step.length : 1;
    }
    put("\"");
  }

  static std::string escaped(char c) {
    switch (c) {
      case '"': return "\\\"";
      case '\\': return "\\\\";
      case '\n': return "\\n";
      case '\r': return "\\r";
      case '\t': return "\\t";
      case '\b': return "\\b";
      case '\f': return "\\f";
      default: break;
    }
    return static_cast<unsigned char>(c) >= 0x20 ? std::string(1, c) : ascii(static_cast<unsigned char>(c));
  }

  /// \uXXXX, two of them above the first 65536 characters.
  static std::string ascii(std::uint32_t code) {
    if (code >= 0x10000) return ascii(0xd800 + ((code - 0x10000) >> 10)) + ascii(0xdc00 + ((code - 0x10000) & 0x3ff));
    std::array<char, 8> out{};
    std::snprintf(out.data(), out.size(), "\\u%04x", static_cast<unsigned>(code));
    return out.data();
  }

  void write_list(const List& list) {
    if (list.empty()) return put("[]");
    put("[");
    ++depth_;
    for (std::size_t i = 0; i < list.size(); ++i) {
      separate(i == 0);
      write(list[i]);
    }
    close("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.entries().empty()) return put("{}");
    put("{");
    ++depth_;
    std::vector<const std::pair<Text, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sorted_keys)
      std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->first.bytes() < b->first.bytes(); });
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      write_text(entries[i]->first);
      out_.append(style_.between_key_and_value);
      write(entries[i]->second);
    }
    close("}");
  }

  void separate(bool first) {
    if (!first) out_.append(style_.between_items);
    break_line();
  }
  void close(std::string_view bracket) {
    --depth_;
    break_line();
    put(bracket);
  }
  void break_line() {
    if (style_.indent == 0) return;
    put("\n");
    put(std::string(depth_ * style_.indent, ' '));
  }

  const JsonStyle& style_;
  std::size_t line_, depth_ = 0;
  Text out_;
};

}  // namespace

Text to_json(const Value& value, const JsonStyle& style, std::size_t line) {
  JsonWriter writer(style, line);
  writer.write(value);
  return writer.take();
}

namespace {
/// Makes values of what the reader finds. No tree of JSON stands between: such trees sort an object's keys, or search them one by one.
class ValueMaker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ValueMaker(std::size_t max_depth) : max_depth_(max_depth) {}
  Value take() { return std::move(result_); }

  bool null() override { return put(Value(None{})); }
  bool boolean(bool value) override { return put(Value(value)); }
  bool number_integer(std::int64_t value) override { return put(Value(value)); }
  bool number_unsigned(std::uint64_t value) override {
    return put(value > std::uint64_t{INT64_MAX} ? Value(static_cast<double>(value)) : Value(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string&) override { return put(Value(value)); }
  bool string(std::string& value) override { return put(Value(Text(std::move(value), Origin::kCaller))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool key(std::string& name) override {
    open_.back().key = Text(std::move(name), Origin::kCaller);
    return true;
  }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override {
    return close([](Container& container) { return Value(std::move(container.dict)); });
  }
  bool end_array() override {
    return close([](Container& container) { return Value(std::move(container.list)); });
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  struct Container {
    List list;
    Dict dict;
    std::optional<Text> key;  // of an object's next value
  };

  bool open() {
    // Refused before it is built: its destruction would recurse.
    if (open_.size() == max_depth_) throw TemplateError(1, "JSON nests deeper than " + std::to_string(max_depth_));
    open_.emplace_back();
    return true;
  }
  bool close(Value (*made)(Container&)) {
    Value value = made(open_.back());
    open_.pop_back();
    return put(std::move(value));
  }
  bool put(Value value) {
    if (open_.empty())
      result_ = std::move(value);
    else if (open_.back().key)
      open_.back().dict.set(*std::exchange(open_.back().key, std::nullopt), std::move(value));
    else
      open_.back().list.push_back(std::move(value));
    return true;
  }

  const std::size_t max_depth_;
  std::vector<Container> open_;
  Value result_;
};
}  // namespace

Value from_json(std::string_view json, std::size_t max_depth) {
  ValueMaker maker(max_depth);
  if (!nlohmann::json::sax_parse(json, &maker)) throw TemplateError(1, "a value is no JSON");
  return maker.take();
}

}  // namespace troupe::text::jinja
