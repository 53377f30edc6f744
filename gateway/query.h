// QueryFields: typed, range-checked reading of the query of a URL. Unknown names are ignored; the first fault is kept and names the
// field. Percent signs and "+" are decoded. Pure, any thread.
#pragma once
#include "gateway/http_request.h"
#include "gateway/request_fields.h"
#include "messages/error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::gateway {

std::string percent_decoded(std::string_view text);

class QueryFields {
 public:
  /// `error` collects the first fault and must outlive the reader.
  QueryFields(const HttpRequest& request, std::optional<Error>& error);

  bool boolean(std::string_view name, bool fallback);
  std::int64_t integer(std::string_view name, std::int64_t min, std::int64_t max, std::int64_t fallback);
  std::string text(std::string_view name, std::size_t max_bytes);
  bool boolean(const FlagField& field) { return boolean(field.name, field.fallback); }
  /// Only for fields that have a fallback, or with one given here.
  std::int64_t integer(const IntegerField& field) { return integer(field, field.fallback.value_or(field.min)); }
  std::int64_t integer(const IntegerField& field, std::int64_t fallback) { return integer(field.name, field.min, field.max, fallback); }
  std::string text(const TextField& field) { return text(field.name, field.max_bytes); }
  std::string choice(const ChoiceField& field);
  /// Keeps a fault of field `name`; `rule` continues "<name> ": "must be ...".
  void fail(std::string_view name, std::string_view rule);

 private:
  const std::string* find(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> fields_;
  std::optional<Error>& error_;
};

}  // namespace troupe::gateway
