#include "runtime/model/config_reader.h"

#include "messages/error_reasons.h"

#include <cmath>

namespace troupe::model {

Error unsupported(const weights::GgufFile& file, std::string_view field, std::string what) {
  Error error = file.bad(field, std::move(what));
  error.reason = ErrorReason::kUnsupportedModel;
  return error;
}

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 64));
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

std::size_t ConfigReader::integer(std::string_view name, std::size_t low, std::size_t high, std::size_t multiple) {
  const auto value = file_.unsigned_integer(key(name));
  if (!value) {
    fail(name, "missing, or not an unsigned integer");
    return low;
  }
  if (*value < low || *value > high) {
    fail_unsupported(name, std::to_string(*value) + " is not in " + std::to_string(low) + "..." + std::to_string(high));
    return low;
  }
  if (*value % multiple != 0) {
    fail_unsupported(name, std::to_string(*value) + " is not a multiple of " + std::to_string(multiple));
    return low;
  }
  return static_cast<std::size_t>(*value);
}

std::size_t ConfigReader::integer_or(std::string_view name, std::size_t absent, std::size_t low, std::size_t high, std::size_t multiple) {
  return file_.unsigned_integer(key(name)) ? integer(name, low, high, multiple) : absent;
}

double ConfigReader::real_or(std::string_view name, double absent, double low, double high) {
  const double value = file_.real(key(name)).value_or(absent);
  if (std::isfinite(value) && value >= low && value <= high) return value;
  fail_unsupported(name, std::to_string(value) + " is not in " + std::to_string(low) + "..." + std::to_string(high));
  return absent;
}

void ConfigReader::fail(std::string_view name, std::string what) {
  if (!error_) error_ = file_.bad(key(name), std::move(what));
}

void ConfigReader::fail_unsupported(std::string_view name, std::string what) {
  if (!error_) error_ = unsupported(file_, key(name), std::move(what));
}

}  // namespace troupe::model
