// UseClock: stamps of last use, for LRU. A stamp is the time in microseconds, but always later than the one before, so that the order is
// strict also within a microsecond and where somebody sets the clock back. Any thread.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace troupe::exec {

class UseClock {
 public:
  std::uint64_t next() {
    std::uint64_t last = last_.load(std::memory_order_relaxed), stamp = 0;
    do stamp = std::max(last + 1, now_us());
    while (!last_.compare_exchange_weak(last, stamp, std::memory_order_relaxed));
    return stamp;
  }
  /// A stamp found on disk: later ones follow it. One from the future counts as now, so that a damaged one is not the last to go for ever;
  /// but not one that is only a little ahead, as stamps given in a hurry are.
  std::uint64_t adopt(std::uint64_t stamp) {
    const std::uint64_t now = now_us();
    if (stamp > now + kAhead) stamp = now;
    std::uint64_t last = last_.load(std::memory_order_relaxed);
    while (last < stamp && !last_.compare_exchange_weak(last, stamp, std::memory_order_relaxed)) {
    }
    return stamp;
  }
  static std::uint32_t age_s(std::uint64_t stamp) {
    const std::uint64_t now = now_us();
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(now > stamp ? (now - stamp) / 1'000'000 : 0, UINT32_MAX));
  }

 private:
  static constexpr std::uint64_t kAhead = 60'000'000;
  static std::uint64_t now_us() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count(), 1));
  }
  std::atomic<std::uint64_t> last_{0};
};

}  // namespace troupe::exec
