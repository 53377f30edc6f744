// The catalogue of error reasons: number (stable, on the wire), name (API `code`, metrics, logs).
// Add a row at the end; never renumber.
#pragma once
#include "messages/error.h"

#include <string_view>

namespace troupe {

#define TROUPE_ERROR_REASONS(ROW)                           \
  ROW(kUnclassified, 0, "internal_error")                   \
  ROW(kInvalidValue, 1, "invalid_value")                    \
  ROW(kMissingField, 2, "missing_required_parameter")       \
  ROW(kUnknownModel, 3, "model_not_found")                  \
  ROW(kContextLength, 4, "context_length_exceeded")         \
  ROW(kQueueFull, 5, "queue_full")                          \
  ROW(kDraining, 6, "server_draining")                      \
  ROW(kLoading, 7, "model_loading")                         \
  ROW(kGroupLost, 8, "engine_restarting")                   \
  ROW(kRetryBudget, 9, "retry_budget_exhausted")            \
  ROW(kDeadline, 10, "deadline_exceeded")                   \
  ROW(kCancelled, 11, "cancelled")                          \
  ROW(kPreviousResponse, 12, "previous_response_not_found") \
  ROW(kInvalidKey, 13, "invalid_api_key")                   \
  ROW(kForeignOrigin, 14, "origin_not_allowed")             \
  ROW(kBodyTooLarge, 15, "request_too_large")               \
  ROW(kUnknownRoute, 16, "unknown_url")                     \
  ROW(kBadJson, 17, "invalid_json")                         \
  ROW(kTemplate, 18, "chat_template_error")                 \
  ROW(kUnsupported, 19, "unsupported_parameter")            \
  ROW(kBadModelFile, 20, "bad_model_file")                  \
  ROW(kUnsupportedModel, 21, "unsupported_model")           \
  ROW(kBadConfig, 22, "bad_config")                         \
  ROW(kFileUnreadable, 23, "file_unreadable")               \
  ROW(kAddressInUse, 24, "address_in_use")                  \
  ROW(kWatchdog, 25, "step_timeout")                        \
  ROW(kComputeFault, 26, "compute_fault")                   \
  ROW(kNonFinite, 27, "non_finite_logits")                  \
  ROW(kNotEnoughBlocks, 28, "kv_cache_too_small")           \
  ROW(kSlowReader, 29, "slow_reader")                       \
  ROW(kHostNotAllowed, 30, "host_not_allowed")              \
  ROW(kBusyLane, 31, "response_in_progress")                \
  ROW(kActorDied, 32, "actor_died")                         \
  ROW(kOutOfMemory, 33, "out_of_memory")                    \
  ROW(kMethodNotAllowed, 34, "method_not_allowed")          \
  ROW(kAdminKeyNeeded, 35, "admin_key_needed")              \
  ROW(kResponseNotFound, 36, "response_not_found")          \
  ROW(kPeerRefused, 37, "peer_refused")

enum class ErrorReason : std::uint16_t {
#define TROUPE_ROW(symbol, number, name) symbol = number,
  TROUPE_ERROR_REASONS(TROUPE_ROW)
#undef TROUPE_ROW
};

/// Stable name of a reason; "internal_error" for a number this build does not know.
constexpr std::string_view reason_name(ErrorReason reason) {
  switch (reason) {
#define TROUPE_ROW(symbol, number, name) \
  case ErrorReason::symbol: return name;
    TROUPE_ERROR_REASONS(TROUPE_ROW)
#undef TROUPE_ROW
  }
  return "internal_error";
}

inline Error make_error(ErrorClass error_class, ErrorReason reason, std::string client_text, std::string parameter = {},
                        std::string operator_detail = {}, std::uint32_t retry_after_ms = 0) {
  return Error{error_class, reason, std::move(client_text), std::move(operator_detail), std::move(parameter), retry_after_ms};
}

}  // namespace troupe
