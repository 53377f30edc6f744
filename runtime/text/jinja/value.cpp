#include "runtime/text/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace troupe::text::jinja {
namespace {

/// Python's repr of a float: the shortest digits that read back, and always a point or an exponent.
std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 400> buffer{};
  const auto write = [&](std::chars_format format) {
    return std::string(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr);
  };
  const std::string scientific = write(std::chars_format::scientific);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return scientific;
  std::string out = write(std::chars_format::fixed);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

/// How repr writes a control character; empty: as it is.
std::string control_escape(char c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte != 0x7f) return {};
  std::array<char, 8> code{};
  std::snprintf(code.data(), code.size(), "\\x%02x", static_cast<unsigned>(byte));
  return code.data();
}

/// Python's repr: texts in quotes. The interpreter bounds the depth of values.
void append_repr(Text& out, const Value& value) {
  const auto put = [&out](std::string_view bytes) { out.append(bytes, Origin::kTemplate); };
  if (const Text* text = value.text()) {
    const bool single = text->bytes().find('\'') == std::string::npos || text->bytes().find('"') != std::string::npos;
    put(single ? "'" : "\"");
    for (std::size_t i = 0; i < text->size(); ++i) {
      const char c = text->bytes()[i];
      const std::string escaped = c == '\'' && single ? "\\'" : c == '\\' ? "\\\\" : control_escape(c);
      out.append(escaped.empty() ? std::string_view(&c, 1) : std::string_view(escaped), text->origin(i));
    }
    put(single ? "'" : "\"");
  } else if (const List* list = value.list()) {
    put(value.is_tuple() ? "(" : "[");
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (i > 0) put(", ");
      append_repr(out, (*list)[i]);
    }
    if (value.is_tuple())
      put(list->size() == 1 ? ",)" : ")");
    else
      put("]");
  } else if (const Dict* dict = value.dict()) {
    put("{");
    bool first = true;
    for (const auto& [key, entry] : dict->entries()) {
      if (!first) put(", ");
      first = false;
      append_repr(out, Value(key));
      put(": ");
      append_repr(out, entry);
    }
    put("}");
  } else if (value.undefined() != nullptr) {
    put("Undefined");
  } else {
    out.append(value.to_text());
  }
}

}  // namespace

void Dict::set(Text key, Value value) {
  const std::size_t at = place(key.bytes());
  if (at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kSmall) return;
  for (std::size_t i = places_.size(); i < entries_.size(); ++i) places_.emplace(entries_[i].first.bytes(), i);
}

const Value* Dict::find(std::string_view key) const {
  const std::size_t at = place(key);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

std::size_t Dict::place(std::string_view key) const {
  if (!places_.empty()) {
    const auto found = places_.find(key);
    return found == places_.end() ? entries_.size() : found->second;
  }
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.first.bytes() == key; });
  return static_cast<std::size_t>(found - entries_.begin());
}

const Value* Arguments::find(std::size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [known, value] : named)
    if (known == name) return &value;
  return nullptr;
}

Value::Value(Text text) {
  weight_ += static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), kMaxWeight - weight_));
  storage_ = std::make_shared<const Text>(std::move(text));
}
Value::Value(List list) : depth_(1) {
  for (const Value& part : list) add_part(part);
  storage_ = std::make_shared<const List>(std::move(list));
}
Value Value::tuple(List list) {
  Value out(std::move(list));
  out.tuple_ = true;
  return out;
}
Value::Value(Dict dict) : depth_(1) {
  for (const auto& [key, part] : dict.entries()) {
    add_part(part);
    weight_ += static_cast<std::uint32_t>(std::min<std::size_t>(key.size(), kMaxWeight - weight_));
  }
  storage_ = std::make_shared<const Dict>(std::move(dict));
}
void Value::add_part(const Value& part) {
  weight_ += std::min(part.weight_, kMaxWeight - weight_);
  depth_ = std::max(depth_, part.depth_ + 1);
}

double Value::as_real() const {
  if (const double* number = real()) return *number;
  if (const std::int64_t* number = integer()) return static_cast<double>(*number);
  if (const bool* flag = boolean()) return *flag ? 1.0 : 0.0;
  return 0.0;
}

bool Value::truthy() const {
  if (is_number()) return as_real() != 0.0;
  if (const Text* value = text()) return !value->empty();
  if (const List* value = list()) return !value->empty();
  if (const Dict* value = dict()) return !value->entries().empty();
  return undefined() == nullptr && !is_none();
}

const char* Value::type_name() const {
  constexpr std::array kNames{"undefined", "none", "boolean", "integer", "float", "string", "list", "mapping", "namespace", "function"};
  static_assert(kNames.size() == std::variant_size_v<Storage>);
  return kNames[storage_.index()];
}

Text Value::to_text() const {
  if (const Text* value = text()) return *value;
  std::string out;
  if (is_none()) out = "None";
  if (const bool* value = boolean()) out = *value ? "True" : "False";
  if (const std::int64_t* value = integer()) out = std::to_string(*value);
  if (const double* value = real()) out = real_text(*value);
  if (function() != nullptr) out = "<function>";
  if (names() != nullptr) out = "<namespace>";
  if (list() != nullptr || dict() != nullptr) {
    Text repr;
    append_repr(repr, *this);
    return repr;
  }
  return Text(std::move(out), Origin::kTemplate);
}

bool operator==(const Value& a, const Value& b) {
  if (a.integer() != nullptr && b.integer() != nullptr) return *a.integer() == *b.integer();
  if (a.is_number() && b.is_number()) return a.as_real() == b.as_real();
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
  if (a.list() != nullptr && b.list() != nullptr) return a.is_tuple() == b.is_tuple() && *a.list() == *b.list();
  if (a.dict() != nullptr && b.dict() != nullptr) {
    const auto& entries = a.dict()->entries();
    return entries.size() == b.dict()->entries().size() && std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
             const Value* other = b.dict()->find(entry.first.bytes());
             return other != nullptr && *other == entry.second;
           });
  }
  if (a.names() != nullptr) return a.names() == b.names();
  if (a.function() != nullptr) return a.function() == b.function();
  return (a.undefined() != nullptr && b.undefined() != nullptr) || (a.is_none() && b.is_none());
}

}  // namespace troupe::text::jinja
