// tojson: a Value as JSON text, escaped so that it may stand inside HTML as Jinja does it.
#include "runtime/text/jinja/template_error.h"
#include "runtime/text/jinja/value.h"

#include <array>
#include <cstdio>

namespace troupe::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(std::size_t indent, std::size_t line) : indent_(indent), line_(line) {}
  Text take() { return std::move(out_); }

  void write(const Value& value) {
    if (const Text* text = value.text()) return write_text(*text);
    if (const List* list = value.list()) return write_list(*list);
    if (const Dict* dict = value.dict()) return write_dict(*dict);
    if (value.is_none()) return put("null");
    if (const bool* flag = value.boolean()) return put(*flag ? "true" : "false");
    if (!value.is_number()) throw TemplateError(line_, std::string("tojson cannot write a value of type ") + value.type_name());
    out_.append(value.to_text());
  }

 private:
  void put(std::string_view bytes) { out_.append(bytes, Origin::kTemplate); }

  void write_text(const Text& text) {
    put("\"");
    for (std::size_t i = 0; i < text.size(); ++i) out_.append(escaped(text.bytes()[i]), text.origin(i));
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
    if (static_cast<unsigned char>(c) >= 0x20) return std::string(1, c);
    std::array<char, 8> code{};
    std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
    return code.data();
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
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      separate(first);
      first = false;
      write_text(key);
      put(": ");
      write(value);
    }
    close("}");
  }

  void separate(bool first) {
    if (!first) put(indent_ > 0 ? "," : ", ");
    break_line();
  }
  void close(std::string_view bracket) {
    --depth_;
    break_line();
    put(bracket);
  }
  void break_line() {
    if (indent_ == 0) return;
    put("\n");
    put(std::string(depth_ * indent_, ' '));
  }

  std::size_t indent_, line_, depth_ = 0;
  Text out_;
};

}  // namespace

Text to_json(const Value& value, std::size_t indent, std::size_t line) {
  JsonWriter writer(indent, line);
  writer.write(value);
  return writer.take();
}

}  // namespace troupe::text::jinja
