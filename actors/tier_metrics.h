// TierMetrics: what a cache tier's actor tells /metrics, with the tier's name as label. Owned by the actor; its thread.
#pragma once
#include "runtime/base/metrics.h"

#include <cstdint>
#include <string>

namespace troupe::actors {

/// Totals since the tier's index was made, and gauges.
struct TierFigures {
  std::uint64_t query_tokens = 0, hit_tokens = 0, written_blocks = 0;
  std::uint64_t evicted_written = 0, evicted_unwritten = 0;  // had the tier below them?
  std::uint64_t failed_writes = 0, failed_loads = 0, no_room = 0;
  std::uint32_t unwritten = 0, stored = 0, locked = 0, free = 0;
};

class TierMetrics {
 public:
  TierMetrics(base::Metrics& metrics, const std::string& tier);
  void report(const TierFigures& now);
  /// The totals begin anew.
  void begin() { told_ = {}; }
  void wrote(std::uint64_t bytes) { bytes_.increment(static_cast<double>(bytes)); }

 private:
  base::Counter &queries_, &hits_, &written_, &bytes_, &evicted_written_, &evicted_unwritten_, &failed_writes_, &failed_loads_, &no_room_;
  base::Gauge &unwritten_, &stored_, &locked_, &free_;
  TierFigures told_;
};

}  // namespace troupe::actors
