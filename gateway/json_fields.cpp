// See json_fields.h.
#include "gateway/json_fields.h"

#include "messages/error_reasons.h"

#include <cmath>

namespace troupe::gateway {
namespace {

Error bad_json(std::string text) { return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadJson, std::move(text)); }

// Depth is bounded before the parser runs, so that no hostile nesting reaches it.
bool too_deep(std::string_view text, std::size_t max_depth) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); i++) {
    char c = text[i];
    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      depth--;
    }
  }
  return false;
}

// The next two read text that has been parsed: strings and brackets end.

/// Behind the string that begins at `at`.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (at++; at < text.size() && text[at] != '"'; at++)
    if (text[at] == '\\') at++;
  return at + 1;
}

/// Behind the member's value that begins at `at`.
std::size_t behind_value(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    char c = text[at];
    if (depth == 0 && (c == ',' || c == '}')) break;
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
    at = c == '"' ? behind_string(text, at) : at + 1;
  }
  return at;
}

std::string plain_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

Result<JsonBody> parse_json_object(std::string_view body, std::size_t max_depth) {
  if (body.empty()) return bad_json("the body is empty: it must be a JSON object");
  if (too_deep(body, max_depth)) return bad_json("the JSON is nested deeper than " + std::to_string(max_depth) + " levels");
  try {
    auto value = nlohmann::json::parse(body);
    if (!value.is_object()) return bad_json("the body must be a JSON object");
    return JsonBody{std::move(value), body};
  } catch (const nlohmann::json::parse_error& error) {  // what() quotes the input: only the offset is told
    return bad_json("the body is not valid UTF-8 JSON (at byte " + std::to_string(error.byte) + ")");
  } catch (const nlohmann::json::exception&) {
    return bad_json("the body holds a number out of range");
  }
}

std::string_view JsonBody::text_of(std::string_view name) const {
  std::string_view found;
  std::size_t at = text.find('{');
  while ((at = text.find_first_of("\"}", at)) != std::string_view::npos && text[at] == '"') {
    auto key = text.substr(at, behind_string(text, at) - at);
    auto begin = text.find_first_not_of(" \t\r\n:", at + key.size());
    at = behind_value(text, begin);
    bool same = key.find('\\') == std::string_view::npos ? key.substr(1, key.size() - 2) == name : nlohmann::json::parse(key) == name;
    if (same) found = text.substr(begin, at - begin);  // of equal keys the last one counts, as in `value`
  }
  return found;
}

JsonFields::JsonFields(const nlohmann::json& object, std::string prefix, std::optional<Error>& error)
    : object_(object), prefix_(std::move(prefix)), error_(error) {}

std::string JsonFields::path(std::string_view name) const {
  if (prefix_.empty()) return std::string(name);
  return name.empty() ? prefix_ : prefix_ + "." + std::string(name);
}

void JsonFields::keep(std::string_view name, std::string_view rule, ErrorReason reason) {
  if (error_) return;
  auto where = path(name);
  error_ = make_error(ErrorClass::kInvalidRequest, reason, where + " " + std::string(rule), where);
}
void JsonFields::fail(std::string_view name, std::string_view rule) { keep(name, rule, ErrorReason::kInvalidValue); }
void JsonFields::missing(std::string_view name, std::string_view rule) { keep(name, rule, ErrorReason::kMissingField); }
void JsonFields::unsupported(std::string_view name, std::string_view rule) { keep(name, rule, ErrorReason::kUnsupported); }

const nlohmann::json* JsonFields::find(std::string_view name) const {
  auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::boolean(std::string_view name, bool fallback) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, "must be true or false");
  return fallback;
}

double JsonFields::number(std::string_view name, double min, double max, double fallback) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number()) {
    double number = value->get<double>();
    if (std::isfinite(number) && number >= min && number <= max) return number;
  }
  fail(name, "must be a number from " + plain_number(min) + " to " + plain_number(max));
  return fallback;
}

std::int64_t JsonFields::integer(std::string_view name, std::int64_t min, std::int64_t max, std::int64_t fallback) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  std::optional<std::int64_t> number;
  if (value->is_number_unsigned()) {
    auto big = value->get<std::uint64_t>();
    if (big <= static_cast<std::uint64_t>(INT64_MAX)) number = static_cast<std::int64_t>(big);
  } else if (value->is_number_integer()) {
    number = value->get<std::int64_t>();
  } else if (value->is_number_float()) {  // 64.0 is an integer, 0.5 is not
    double real = value->get<double>();
    if (std::trunc(real) == real && std::abs(real) < 9007199254740992.0) number = static_cast<std::int64_t>(real);
  }
  if (number && *number >= min && *number <= max) return *number;
  fail(name, "must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return fallback;
}

std::string JsonFields::text(std::string_view name, std::size_t max_bytes) {
  const auto* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string() && value->get_ref<const std::string&>().size() <= max_bytes) return value->get<std::string>();
  fail(name, "must be a string of at most " + std::to_string(max_bytes) + " bytes");
  return {};
}

const nlohmann::json* JsonFields::array(std::string_view name, std::size_t max_entries) {
  const auto* value = find(name);
  if (value == nullptr || (value->is_array() && value->size() <= max_entries)) return value;
  fail(name, "must be an array of at most " + std::to_string(max_entries) + " entries");
  return nullptr;
}

const nlohmann::json* JsonFields::object(std::string_view name) {
  const auto* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  fail(name, "must be an object");
  return nullptr;
}

}  // namespace troupe::gateway
