// StepWatch: whether the engine moves: steps finish while requests run or wait. It reads the scheduler's own metrics, which stay as they
// are when the scheduler or its shards hang, so that nothing that hangs has to tell. Owned by the Service; loop thread.
#pragma once
#include "runtime/base/metrics.h"

#include <cstdint>

namespace troupe::gateway {

class StepWatch {
 public:
  /// Stalled is who has had work for `limit_ms` without finishing a step.
  StepWatch(base::Metrics& metrics, unsigned limit_ms);
  /// Takes notice of what there is; a few times a second while there are connections. `now` in loop milliseconds.
  void look(std::uint64_t now);
  /// For how long no step has finished though there is work; 0: all is well.
  std::uint64_t stalled_ms(std::uint64_t now) const { return now - moved_at_ > limit_ms_ ? now - moved_at_ : 0; }

 private:
  const base::Gauge& running_;
  const base::Gauge& waiting_;
  const base::Counter& steps_;
  const std::uint64_t limit_ms_;
  double seen_steps_ = 0;
  std::uint64_t looked_at_ = 0;
  std::uint64_t moved_at_ = 0;  // last time that a step had finished or there was nothing to do
};

}  // namespace troupe::gateway
