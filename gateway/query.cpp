// See query.h.
#include "gateway/query.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <charconv>

namespace troupe::gateway {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string form_decoded(std::string_view text) {
  std::string blanks(text);
  for (char& c : blanks)
    if (c == '+') c = ' ';
  return percent_decoded(blanks);
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i++) {
    bool escape = text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
    if (!escape) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
    i += 2;
  }
  return out;
}

QueryFields::QueryFields(const HttpRequest& request, std::optional<Error>& error) : error_(error) {
  std::string_view target = request.target;
  target = target.substr(0, target.find('#'));
  auto mark = target.find('?');
  if (mark == std::string_view::npos) return;
  auto rest = target.substr(mark + 1);
  while (!rest.empty()) {
    auto field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), field.size() + 1));
    auto equals = field.find('=');
    auto value = equals == std::string_view::npos ? std::string_view() : field.substr(equals + 1);
    if (!field.empty()) fields_.emplace_back(form_decoded(field.substr(0, equals)), form_decoded(value));
  }
}

const std::string* QueryFields::find(std::string_view name) const {
  for (const auto& [key, value] : fields_)
    if (key == name && !value.empty()) return &value;
  return nullptr;
}

void QueryFields::fail(std::string_view name, std::string_view rule) {
  if (error_) return;
  error_ =
      make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, std::string(name) + " " + std::string(rule), std::string(name));
}

bool QueryFields::boolean(std::string_view name, bool fallback) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  if (*value == "true" || *value == "1") return true;
  if (*value != "false" && *value != "0") fail(name, "must be true or false");
  return false;
}

std::int64_t QueryFields::integer(std::string_view name, std::int64_t min, std::int64_t max, std::int64_t fallback) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  std::int64_t number = 0;
  const char* end = value->data() + value->size();
  auto [stop, status] = std::from_chars(value->data(), end, number);
  if (status == std::errc() && stop == end && number >= min && number <= max) return number;
  fail(name, "must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return fallback;
}

std::string QueryFields::text(std::string_view name, std::size_t max_bytes) {
  const auto* value = find(name);
  if (value == nullptr) return {};
  if (value->size() <= max_bytes) return *value;
  fail(name, "must have at most " + std::to_string(max_bytes) + " bytes");
  return {};
}

std::string QueryFields::choice(const ChoiceField& field) {
  const auto* value = find(field.name);
  if (value == nullptr) return std::string(field.fallback);
  if (std::find(field.values.begin(), field.values.end(), *value) != field.values.end()) return *value;
  std::string known;
  for (auto word : field.values) known += (known.empty() ? "\"" : ", \"") + std::string(word) + "\"";
  fail(field.name, "must be one of " + known);
  return std::string(field.fallback);
}

}  // namespace troupe::gateway
