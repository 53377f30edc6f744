#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace troupe::base {
namespace {
spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("troupe");
    made->set_level(spdlog::level::warn);
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
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
}  // namespace

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
  if (fields.empty())
    logger().log(level_of(level), "{}", event);
  else
    logger().log(level_of(level), "{} {}", event, fields);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return out + '"';
}

}  // namespace troupe::base
