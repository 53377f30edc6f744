// ProgressWatch: tells an engine that works from one that is stuck, by what is known outside of it: is there work, and does a count of what
// was done grow? Owner: Service; loop thread. Invariant: what was not watched does not count, be it that nobody looked (no client was
// there, so the loop slept) or that the whole process was paused.
#pragma once
#include <cstdint>

namespace troupe::gateway {

class ProgressWatch {
 public:
  /// Whether there has been work for at least `limit_ms` in which `done` stayed as it was. To be asked a few times a second; `now` in ms.
  bool stuck(bool work, double done, std::uint64_t now, std::uint64_t limit_ms) {
    if (!work || done != done_ || now - looked_ > kBlindMs) since_ = now;
    done_ = done;
    looked_ = now;
    return work && now - since_ >= limit_ms;
  }

 private:
  static constexpr std::uint64_t kBlindMs = 2000;

  double done_ = 0;
  std::uint64_t looked_ = 0, since_ = 0;
};

}  // namespace troupe::gateway
