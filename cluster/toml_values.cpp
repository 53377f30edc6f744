// See toml_values.h.
#include "cluster/toml_values.h"

#include "messages/error_reasons.h"

#include <cstdint>
#include <sstream>
#include <variant>
#include <vector>

namespace troupe::cluster {
namespace {

Error bad_value(const std::string& place, const std::string& what) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, place + ": " + what);
}

}  // namespace

Result<std::string> scalar_text(const toml::node& node, const std::string& place) {
  if (auto text = node.value_exact<std::string>()) return *text;
  if (auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (auto flag = node.value_exact<bool>()) return std::string(*flag ? "true" : "false");
  if (auto real = node.value_exact<double>()) {
    std::ostringstream text;
    text << *real;
    return text.str();
  }
  return bad_value(place, "must be a text, a number, true or false");
}

Status set_option(Options& options, const OptionRow& row, const toml::node& node, const std::string& place) {
  clear_option(options, row);
  options.sources[std::string(row.name)] = OptionSource::kFile;
  const auto set_one = [&](const toml::node& one) -> Status {
    auto value = scalar_text(one, place);
    if (!value) return value.error();
    return set_option(options, row, *value, place);
  };
  const toml::array* items = node.as_array();
  if (items == nullptr) return set_one(node);
  if (!std::holds_alternative<std::vector<std::string> Options::*>(row.field)) return bad_value(place, "takes one value, not a list");
  for (const toml::node& item : *items)
    if (auto status = set_one(item); !status) return status;
  return ok_status();
}

}  // namespace troupe::cluster
