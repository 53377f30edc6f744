// PhaseClock: how long each phase of something took, as fields of a log line ("open_ms=3.1 weights_ms=40.2"). One thread.
#pragma once
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

namespace troupe::base {

class PhaseClock {
 public:
  /// A phase has ended, the next one begins.
  void mark(std::string_view phase) {
    const auto now = std::chrono::steady_clock::now();
    char text[32];
    std::snprintf(text, sizeof text, "_ms=%.1f", std::chrono::duration<double, std::milli>(now - last_).count());
    if (!fields_.empty()) fields_ += ' ';
    fields_.append(phase).append(text);
    last_ = now;
  }
  const std::string& fields() const { return fields_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::string fields_;
};

}  // namespace troupe::base
