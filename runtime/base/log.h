// Structured logging, key=value, quiet by default. Only log.cpp names spdlog: callers pass ready text.
// Never log prompt or output text. Any thread.
#pragma once
#include <string>
#include <string_view>

namespace troupe::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
/// "debug" | "info" | "warning" | "error" | "off"; false if unknown. Default: warning, to stderr.
bool set_log_level(std::string_view level);
bool log_enabled(LogLevel level);
/// `event` is a stable short name ("request_finished"); `fields` is "key=value key=value".
void log(LogLevel level, std::string_view event, std::string_view fields = {});
/// A value that may hold blanks or quotes, as a quoted value for `fields`; control characters become blanks.
std::string quoted(std::string_view text);

}  // namespace troupe::base
