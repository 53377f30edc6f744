// UseClock: stamps of last use, for LRU. A stamp is the time in milliseconds, but always later than the one before, so that the order is
// strict also within a millisecond and where somebody sets the clock back. Any thread.
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
    do stamp = std::max(last + 1, now_ms());
    while (!last_.compare_exchange_weak(last, stamp, std::memory_order_relaxed));
    return stamp;
  }
  /// A stamp found on disk: later ones follow it. One from the future counts as now, so that a damaged one does not stay first for ever.
  std::uint64_t adopt(std::uint64_t stamp) {
    stamp = std::min(stamp, now_ms());
    std::uint64_t last = last_.load(std::memory_order_relaxed);
    while (last < stamp && !last_.compare_exchange_weak(last, stamp, std::memory_order_relaxed)) {
    }
    return stamp;
  }
  static std::uint32_t age_s(std::uint64_t stamp) {
    const std::uint64_t now = now_ms();
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(now > stamp ? (now - stamp) / 1000 : 0, UINT32_MAX));
  }

 private:
  static std::uint64_t now_ms() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), 1));
  }
  std::atomic<std::uint64_t> last_{0};
};

}  // namespace troupe::exec
