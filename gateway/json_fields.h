// JsonFields: typed, range-checked reading of one JSON object from a client. Null reads as absent, unknown fields are ignored. The
// first fault is kept, names the field by its path and says the limit; later reads then return their fallback. Pure, any thread.
#pragma once
#include "gateway/request_fields.h"
#include "messages/error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::gateway {

/// A client's JSON object: its value, whose objects are sorted by key, and its text, which must outlive it.
struct JsonBody {
  nlohmann::json value;
  std::string_view text;
  /// The value of the field as the client wrote it, its objects in the client's order. Empty: there is no such field.
  std::string_view text_of(std::string_view name) const;
};

/// Parses a body that must be one JSON object. Errors (400): not UTF-8 or not JSON (with the offset), not an object, nested deeper
/// than `max_depth`. Echoes nothing of the body.
Result<JsonBody> parse_json_object(std::string_view body, std::size_t max_depth);

class JsonFields {
 public:
  /// `prefix` is the path of `object` ("" for the body, "messages[2]" inside it). `error` collects the first fault of all readers of
  /// one request. Both must outlive the reader.
  JsonFields(const nlohmann::json& object, std::string prefix, std::optional<Error>& error);

  /// The field's value, or null if it is absent or JSON null.
  const nlohmann::json* find(std::string_view name) const;
  bool boolean(std::string_view name, bool fallback);
  double number(std::string_view name, double min, double max, double fallback);
  std::int64_t integer(std::string_view name, std::int64_t min, std::int64_t max, std::int64_t fallback);
  std::string text(std::string_view name, std::size_t max_bytes);
  bool boolean(const FlagField& field) { return boolean(field.name, field.fallback); }
  double number(const NumberField& field) { return number(field.name, field.min, field.max, field.fallback); }
  /// Only for fields that have a fallback, or with one given here.
  std::int64_t integer(const IntegerField& field) { return integer(field, field.fallback.value_or(field.min)); }
  std::int64_t integer(const IntegerField& field, std::int64_t fallback) { return integer(field.name, field.min, field.max, fallback); }
  std::string text(const TextField& field) { return text(field.name, field.max_bytes); }
  const nlohmann::json* array(std::string_view name, std::size_t max_entries);
  const nlohmann::json* object(std::string_view name);

  std::string path(std::string_view name) const;
  /// Keeps a fault of field `name`; `rule` continues "<path> ": "must be ...".
  void fail(std::string_view name, std::string_view rule);
  void missing(std::string_view name, std::string_view rule);
  void unsupported(std::string_view name, std::string_view rule);
  bool failed() const { return error_.has_value(); }

 private:
  void keep(std::string_view name, std::string_view rule, ErrorReason reason);
  const nlohmann::json& object_;
  std::string prefix_;
  std::optional<Error>& error_;
};

}  // namespace troupe::gateway
