// See error_body.h.
#include "gateway/error_body.h"

#include "messages/error_reasons.h"

namespace troupe::gateway {
namespace {

struct StatusRow {
  ErrorClass error_class;
  int status;
  std::string_view type;
};

constexpr StatusRow kStatusTable[] = {
    {ErrorClass::kInvalidRequest, 400, "invalid_request_error"},
    {ErrorClass::kUnauthorized, 401, "authentication_error"},
    {ErrorClass::kForbidden, 403, "permission_error"},
    {ErrorClass::kNotFound, 404, "invalid_request_error"},
    {ErrorClass::kContextTooLong, 400, "invalid_request_error"},
    {ErrorClass::kTooLarge, 413, "invalid_request_error"},
    {ErrorClass::kOverloaded, 429, "rate_limit_error"},
    {ErrorClass::kUnavailable, 503, "service_unavailable_error"},
    {ErrorClass::kDeadlineExceeded, 504, "timeout_error"},
    {ErrorClass::kCancelled, 499, "cancelled"},
    {ErrorClass::kGroupLost, 503, "service_unavailable_error"},
    {ErrorClass::kStorageFailed, 500, "server_error"},
    {ErrorClass::kCorrupted, 500, "server_error"},
    {ErrorClass::kInternal, 500, "server_error"},
};

const StatusRow& row_of(ErrorClass error_class) {
  for (const auto& row : kStatusTable)
    if (row.error_class == error_class) return row;
  return kStatusTable[std::size(kStatusTable) - 1];
}

std::string text_of(capnp::Text::Reader text) { return std::string(text.begin(), text.size()); }

}  // namespace

int http_status(ErrorClass error_class) { return row_of(error_class).status; }
std::string_view error_type(ErrorClass error_class) { return row_of(error_class).type; }

nlohmann::json error_json(const Error& error) {
  nlohmann::json body;
  body["message"] = error.client_text.empty() ? std::string(reason_name(error.reason)) : error.client_text;
  body["type"] = error_type(error.error_class);
  body["param"] = error.parameter.empty() ? nlohmann::json() : nlohmann::json(error.parameter);
  body["code"] = reason_name(error.reason);
  return body;
}

std::string error_body(const Error& error) { return to_text({{"error", error_json(error)}}); }

std::string retry_after_header(const Error& error) {
  if (error.retry_after_ms == 0) return {};
  return "Retry-After: " + std::to_string((error.retry_after_ms + 999) / 1000) + "\r\n";
}

Error protocol_error(int status, std::string_view why) {
  auto error_class = ErrorClass::kInvalidRequest;
  auto reason = ErrorReason::kInvalidValue;
  if (status == 413 || status == 414 || status == 431) {
    error_class = ErrorClass::kTooLarge;
    reason = ErrorReason::kBodyTooLarge;
  } else if (status == 408) {
    error_class = ErrorClass::kDeadlineExceeded;
    reason = ErrorReason::kDeadline;
  } else if (status == 501) {
    reason = ErrorReason::kMethodNotAllowed;
  } else if (status == 503) {
    error_class = ErrorClass::kUnavailable;
    reason = ErrorReason::kDraining;
  }
  return make_error(error_class, reason, std::string(why));
}

Error from_wire(messages::Error::Reader error) {
  Error out;
  auto number = static_cast<std::uint16_t>(error.getClass());
  out.error_class = number <= static_cast<std::uint16_t>(ErrorClass::kInternal) ? static_cast<ErrorClass>(number) : ErrorClass::kInternal;
  out.reason = static_cast<ErrorReason>(error.getReason());
  out.client_text = text_of(error.getClientText());
  out.operator_detail = text_of(error.getOperatorDetail());
  out.parameter = text_of(error.getParameter());
  out.retry_after_ms = error.getRetryAfterMs();
  return out;
}

Error draining_error() {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kDraining, "the server is shutting down", "", "", kRetryMs);
}

Error cut_by_drain() {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kDraining, "the server is shutting down and the request did not end in time", "",
                    "", kRetryMs);
}

std::string to_text(const nlohmann::json& value) { return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

}  // namespace troupe::gateway
