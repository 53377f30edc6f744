// The bodies of the API as data: what /openapi.json and docs/http-api.md say. Requests are lists of the rows that the parsers use
// (request_fields.h); answers are JSON schemas. Any thread.
#pragma once
#include "gateway/request_fields.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::gateway {

struct RequestSchema {
  std::string_view name;
  std::vector<std::string_view> required;
  std::vector<Field> fields;
  std::vector<std::string_view> one_needed = {};  // at least one of these
};
/// By name; fields in the order of the documentation.
std::span<const RequestSchema> request_schemas();

std::string_view name_of(const Field& field);
std::string_view help_of(const Field& field);
/// JSON Schema of one field, without the null that every optional field takes.
nlohmann::json schema_of(const Field& field, const Limits& limits);

/// {"ChatCompletion": {...}, ...}
nlohmann::json response_schemas();

}  // namespace troupe::gateway
