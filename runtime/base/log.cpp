// See log.h.
#include "runtime/base/log.h"

#include <nlohmann/json.hpp>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace troupe::base {
namespace {

constexpr std::size_t kAccessQueue = 8192;  // lines

bool as_json = false;
std::string node_field;  // "node=NAME", or empty

void set_pattern(spdlog::logger& logger) {
  if (as_json)
    logger.set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})");
  else
    logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("troupe");
    made->set_level(spdlog::level::warn);
    set_pattern(*made);
    return made;
  }();
  return *instance;
}

// A thread of its own writes it: a terminal or pipe that nobody reads must not stop the loop.
spdlog::logger& access_logger() {
  static const auto instance = [] {
    logger();  // made before, so that it ends after
    spdlog::init_thread_pool(kAccessQueue, 1);
    auto made = spdlog::create_async_nb<spdlog::sinks::stderr_color_sink_mt>("access");
    made->set_level(spdlog::level::info);
    set_pattern(*made);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

void write(spdlog::logger& to, spdlog::level::level_enum level, std::string_view event, std::string_view fields) {
  const std::string_view gap = node_field.empty() || fields.empty() ? "" : " ";
  const std::string all = node_field + std::string(gap) + std::string(fields);
  if (as_json)
    to.log(level, "{}", json_members(event, all));
  else if (all.empty())
    to.log(level, "{}", event);
  else
    to.log(level, "{} {}", event, all);
}

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

bool is_number(std::string_view text) {
  const auto digits =
      static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](unsigned char c) { return c >= '0' && c <= '9'; }));
  const bool one_point = text.size() == digits + 1 && text.find('.') != text.npos && text.front() != '.' && text.back() != '.';
  const bool leading_zero = text.size() > 1 && text[0] == '0' && text[1] != '.';
  return digits > 0 && digits < 16 && (text.size() == digits || one_point) && !leading_zero;
}

// Takes one value off the front of `rest`.
std::string take_json_value(std::string_view& rest) {
  if (rest.empty() || rest.front() != '"') {
    const auto end = std::min(rest.find(' '), rest.size());
    const auto bare = rest.substr(0, end);
    rest.remove_prefix(end);
    return is_number(bare) ? std::string(bare) : json_text(bare);
  }
  std::string text;
  std::size_t i = 1;
  for (; i < rest.size() && rest[i] != '"'; i++) {
    if (rest[i] == '\\' && i + 1 < rest.size()) i++;
    text += rest[i];
  }
  rest.remove_prefix(std::min(i + 1, rest.size()));
  return json_text(text);
}

}  // namespace

bool set_log_format(std::string_view format) {
  if (format != "text" && format != "json") return false;
  as_json = format == "json";
  set_pattern(logger());
  return true;
}

void set_log_node(std::string_view name) { node_field = name.empty() ? std::string() : "node=" + std::string(name); }

bool set_log_level(std::string_view level) {
  if (level == "off") {
    logger().set_level(spdlog::level::off);
    return true;
  }
  for (auto [name, value] :
       {std::pair{"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo}, {"warning", LogLevel::kWarning}, {"error", LogLevel::kError}})
    if (level == name) {
      logger().set_level(level_of(value));
      return true;
    }
  return false;
}

bool log_enabled(LogLevel level) { return logger().should_log(level_of(level)); }

void log(LogLevel level, std::string_view event, std::string_view fields) {
  if (log_enabled(level)) write(logger(), level_of(level), event, fields);
}

void log_access(std::string_view event, std::string_view fields) { write(access_logger(), spdlog::level::info, event, fields); }

std::string log_value(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return out + '"';
}

std::string json_members(std::string_view event, std::string_view fields) {
  std::string out = "\"event\":" + json_text(event);
  for (auto rest = fields; !rest.empty();) {
    if (rest.front() == ' ') {
      rest.remove_prefix(1);
      continue;
    }
    const auto end = std::min(rest.find_first_of("= "), rest.size());
    const auto key = rest.substr(0, end);
    rest.remove_prefix(end);
    std::string value = "true";  // a word without a value
    if (!rest.empty() && rest.front() == '=') {
      rest.remove_prefix(1);
      value = take_json_value(rest);
    }
    out += ',' + json_text(key) + ':' + value;
  }
  return out;
}

}  // namespace troupe::base
