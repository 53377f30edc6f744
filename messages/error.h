// Errors as values: what failed, said once, nearest the cause. Never an HTTP status, never prompt text.
// Consumers decide: the gateway maps a class to a status, sessions and supervisors decide on retries.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace troupe {

/// Closed list; same order as ErrorClass in common.capnp.
enum class ErrorClass : std::uint16_t {
  kInvalidRequest,
  kUnauthorized,
  kForbidden,
  kNotFound,
  kContextTooLong,
  kTooLarge,
  kOverloaded,
  kUnavailable,
  kDeadlineExceeded,
  kCancelled,
  kGroupLost,
  kStorageFailed,
  kCorrupted,
  kInternal,
};

/// Row of the reason catalogue (error_reasons.h): `name` is stable and used in logs, metrics and API error codes.
enum class ErrorReason : std::uint16_t;

struct [[nodiscard]] Error {
  ErrorClass error_class = ErrorClass::kInternal;
  ErrorReason reason{};
  std::string client_text;      // safe to show; says what to do next
  std::string operator_detail;  // for the log only
  std::string parameter;        // request or config field at fault; empty if none
  std::uint32_t retry_after_ms = 0;
  friend bool operator==(const Error&, const Error&) = default;
};

/// A value or an Error. `value()` on an error throws std::logic_error: check `ok()` first.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }

 private:
  T& get() {
    if (!ok()) throw std::logic_error("Result holds an error: " + error().client_text);
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status ok_status() { return Status(Unit{}); }

/// A broken invariant: kills the actor that throws it, never the process; no user input reaches one.
struct InvariantViolation : std::logic_error {
  using std::logic_error::logic_error;
};
#define TROUPE_CHECK(condition)                                                                    \
  do {                                                                                             \
    if (!(condition)) throw ::troupe::InvariantViolation(std::string(__FILE__ ": ") + #condition); \
  } while (false)

}  // namespace troupe
