// Text of an option <-> its field, with range and choice checks. Declared in option_table.h. Knows no source of options.
#include "cluster/option_table.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

namespace troupe::cluster {
namespace {

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, value == std::floor(value) && std::abs(value) < 1e17 ? "%.0f" : "%g", value);
  return text;
}

struct Suffix {
  std::string_view text;
  std::uint64_t factor;
};
constexpr Suffix kSuffixes[] = {{"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30}, {"TiB", 1ULL << 40},
                                {"K", 1ULL << 10},   {"M", 1ULL << 20},   {"G", 1ULL << 30},   {"T", 1ULL << 40}};

std::optional<std::uint64_t> parse_unsigned(std::string_view text, bool bytes) {
  std::uint64_t factor = 1;
  if (bytes) {
    for (const Suffix& suffix : kSuffixes) {
      if (!text.ends_with(suffix.text)) continue;
      text.remove_suffix(suffix.text.size());
      factor = suffix.factor;
      break;
    }
  }
  std::uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (number != 0 && factor > UINT64_MAX / number) return std::nullopt;
  return number * factor;
}

std::optional<double> parse_real(std::string_view text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty() || !std::isfinite(number)) return std::nullopt;
  return number;
}

Error bad_value(std::string_view origin, std::string_view text, const std::string& wanted, const OptionRow& row) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                    std::string(origin) + ": '" + quotable(text) + "' is not valid; it must be " + wanted, std::string(row.name));
}

bool in_range(const OptionRow& row, double number) {
  return row.minimum == row.maximum || (number >= row.minimum && number <= row.maximum);
}

/// What a browser sends as Origin: no path, no slash at the end. Anything else would never match, without a word.
bool is_origin(std::string_view text) {
  if (text == "*") return true;
  const auto scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) return false;
  const auto host = text.substr(scheme_end + 3);
  return !host.empty() &&
         std::none_of(host.begin(), host.end(), [](unsigned char c) { return c <= ' ' || c >= 127 || c == '/' || c == '*'; });
}

}  // namespace

std::string quotable(std::string_view text) {
  constexpr std::size_t kMaxShown = 200;
  std::string out(text.substr(0, kMaxShown));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text.size() > kMaxShown ? out + "..." : out;
}

std::string allowed_text(const OptionRow& row) {
  if (!row.choices.empty()) {
    std::string text;
    for (std::string_view choice : row.choices) {
      if (choice.empty()) continue;
      text += (text.empty() ? "" : ", ") + std::string(choice);
    }
    return text;
  }
  if (row.minimum != row.maximum) return number_text(row.minimum) + " to " + number_text(row.maximum);
  return {};
}

Status set_option(Options& options, const OptionRow& row, std::string_view text, std::string_view origin) {
  if (auto* field = std::get_if<std::string Options::*>(&row.field)) {
    if (!row.choices.empty() && std::find(row.choices.begin(), row.choices.end(), text) == row.choices.end())
      return bad_value(origin, text, "one of " + allowed_text(row), row);
    options.** field = std::string(text);
  } else if (auto* number_field = std::get_if<std::uint64_t Options::*>(&row.field)) {
    const bool bytes = row.unit == "bytes";
    auto number = parse_unsigned(text, bytes);
    if (!number || !in_range(row, static_cast<double>(*number)))
      return bad_value(origin, text,
                       bytes                        ? "a number of bytes, for example 512MiB or 2GiB"
                       : row.minimum == row.maximum ? "a whole number"
                                                    : "a whole number from " + allowed_text(row),
                       row);
    options.** number_field = *number;
  } else if (auto* real_field = std::get_if<double Options::*>(&row.field)) {
    auto number = parse_real(text);
    if (!number || !in_range(row, *number)) return bad_value(origin, text, "a number from " + allowed_text(row), row);
    options.** real_field = *number;
  } else if (auto* flag_field = std::get_if<bool Options::*>(&row.field)) {
    if (text != "true" && text != "false" && text != "1" && text != "0") return bad_value(origin, text, "true or false", row);
    options.** flag_field = text == "true" || text == "1";
  } else {
    auto& list = options.*std::get<std::vector<std::string> Options::*>(row.field);
    if (row.unit == "origin" && !is_origin(text))
      return bad_value(origin, text, "an origin without a path, for example https://chat.example.org, or *", row);
    const bool numbers = row.minimum != row.maximum, closed = numbers || !row.choices.empty();
    while (closed && text.find(',') != std::string_view::npos) {
      if (auto status = set_option(options, row, text.substr(0, text.find(',')), origin); !status) return status;
      text.remove_prefix(text.find(',') + 1);
    }
    if (numbers) {
      auto number = parse_unsigned(text, false);
      if (!number || !in_range(row, static_cast<double>(*number)))
        return bad_value(origin, text, "a whole number from " + allowed_text(row), row);
    } else if (closed && std::find(row.choices.begin(), row.choices.end(), text) == row.choices.end()) {
      return bad_value(origin, text, "one of " + allowed_text(row), row);
    }
    list.emplace_back(text);
  }
  return ok_status();
}

void copy_option(Options& to, const Options& from, const OptionRow& row) {
  std::visit([&](auto field) { to.*field = from.*field; }, row.field);
}

void clear_option(Options& options, const OptionRow& row) {
  if (auto* list = std::get_if<std::vector<std::string> Options::*>(&row.field)) (options.**list).clear();
}

std::string option_text(const Options& options, const OptionRow& row) {
  if (auto* field = std::get_if<std::string Options::*>(&row.field)) return options.**field;
  if (auto* number = std::get_if<std::uint64_t Options::*>(&row.field)) return std::to_string(options.**number);
  if (auto* real = std::get_if<double Options::*>(&row.field)) return number_text(options.**real);
  if (auto* flag = std::get_if<bool Options::*>(&row.field)) return options.**flag ? "true" : "false";
  std::string text;
  for (const std::string& item : options.*std::get<std::vector<std::string> Options::*>(row.field))
    text += (text.empty() ? "" : ",") + item;
  return text;
}

}  // namespace troupe::cluster
