// Structured logging to stderr, quiet by default. Only log.cpp names spdlog: callers pass ready text. Never log prompt or output text.
// The set_ functions are called before other threads start; all else from any thread.
#pragma once
#include <string>
#include <string_view>

namespace troupe::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
/// "debug" | "info" | "warning" | "error" | "off"; false if unknown. Default: warning.
bool set_log_level(std::string_view level);
/// "text": `event key=value key="two words"`; "json": one object a line. False if unknown. Default: text.
bool set_log_format(std::string_view format);
/// In a cluster: each line carries `node=NAME` (one word). Empty: none does.
void set_log_node(std::string_view name);
bool log_enabled(LogLevel level);
/// `event` is a stable short name ("request_finished"); `fields` is "key=value key=value", values with blanks as log_value() gives them.
void log(LogLevel level, std::string_view event, std::string_view fields = {});
/// Whatever the level is: for what an option asks for by name. Lines are dropped rather than waited for when stderr does not take them.
void log_access(std::string_view event, std::string_view fields);
/// A value that may hold blanks or quotes, as a quoted value for `fields`; control characters become blanks.
std::string log_value(std::string_view text);
/// The same line as a JSON object's members: `"event":"x","key":1`. Values that are not quoted and look like numbers are numbers.
std::string json_members(std::string_view event, std::string_view fields);

}  // namespace troupe::base
