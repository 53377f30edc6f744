// From error classes to HTTP: status, OpenAI error type, JSON body. The only place that knows HTTP statuses of errors. Pure, any thread.
#pragma once
#include "messages/common.capnp.h"
#include "messages/error.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace troupe::gateway {

int http_status(ErrorClass error_class);
/// OpenAI's `error.type`.
std::string_view error_type(ErrorClass error_class);
/// {"message", "type", "param", "code"}: the value of `error`.
nlohmann::json error_json(const Error& error);
/// {"error": {...}}, valid UTF-8 whatever the texts hold.
std::string error_body(const Error& error);
/// "Retry-After: 2\r\n" (whole seconds, rounded up), or empty.
std::string retry_after_header(const Error& error);
/// An error of HTTP itself, as the reader found it.
Error protocol_error(int status, std::string_view why);
Error from_wire(messages::Error::Reader error);
/// When to try again where nothing better is known.
inline constexpr std::uint32_t kRetryMs = 1000;
/// Of work that comes during a drain, and of work that a drain has ended.
Error draining_error();
Error cut_by_drain();

/// JSON text; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string to_text(const nlohmann::json& value);

}  // namespace troupe::gateway
