// RestartWindow: at most `restarts` within `window`; the next one is refused. Owned by a supervisor, one a child or group. Time comes in.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>

namespace troupe::base {

class RestartWindow {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  RestartWindow(std::uint32_t restarts, std::chrono::milliseconds window) : restarts_(restarts), window_(window) {}

  /// Takes one restart; false if the window is used up.
  bool try_restart(TimePoint now) {
    while (!times_.empty() && now - times_.front() >= window_) times_.pop_front();
    if (times_.size() >= restarts_) return false;
    times_.push_back(now);
    return true;
  }
  std::uint32_t used() const { return static_cast<std::uint32_t>(times_.size()); }

 private:
  std::uint32_t restarts_;
  std::chrono::milliseconds window_;
  std::deque<TimePoint> times_;
};

}  // namespace troupe::base
