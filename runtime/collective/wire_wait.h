// WireWait: how a rank waits for bytes: it advances them, looks at the abort flag, spins for a while and then sleeps in moments.
// Part of a Collective; the compute thread.
#pragma once
#include "runtime/collective/collective.h"

#include <chrono>
#include <thread>
#include <utility>

namespace troupe::collective {

class WireWait {
 public:
  WireWait(unsigned spin_us, const std::atomic<bool>& abort) : spin_(spin_us), abort_(abort) {}

  /// Until `ready`; `advance` is called before each look. How long it took. Throws Interrupted, and what `advance` throws.
  template <class Advance, class Ready>
  std::chrono::nanoseconds until(Advance advance, Ready ready) {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      advance();
      const bool over = ready(), interrupted = abort_;
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (over || interrupted) waited_ += waited;
      if (over) return waited;
      if (interrupted) throw Interrupted();
      if (waited >= spin_) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::chrono::nanoseconds take_waited() { return std::exchange(waited_, std::chrono::nanoseconds(0)); }

 private:
  std::chrono::microseconds spin_;
  const std::atomic<bool>& abort_;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace troupe::collective
