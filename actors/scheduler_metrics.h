// SchedulerMetrics: schedule::SchedulerStats as Prometheus metrics. Owned by the Scheduler actor; its thread only.
#pragma once
#include "runtime/base/metrics.h"
#include "runtime/schedule/scheduler.h"

namespace troupe::actors {

class SchedulerMetrics {
 public:
  SchedulerMetrics(base::Metrics& metrics, const schedule::SchedulerOptions& options);
  /// Adds what came since the last call; totals start at 0 with each scheduler, the counters do not.
  void report(const schedule::SchedulerStats& stats);
  void step_took(double seconds) { step_.observe(seconds); }

 private:
  schedule::SchedulerStats told_;
  base::Gauge& running_;
  base::Gauge& waiting_;
  base::Gauge& leased_;
  base::Counter& prompt_tokens_;
  base::Counter& generated_tokens_;
  base::Counter& preemptions_;
  base::Counter& steps_;
  base::Counter& overruns_;
  base::Gauge& margin_;
  base::Gauge& delivery_;
  base::Counter& wasted_rows_;
  base::Counter& overlapped_steps_;
  base::Counter& wire_seconds_;
  base::Counter& wire_wait_seconds_;
  base::Counter& host_blocks_loaded_;
  base::Counter& disk_blocks_loaded_;
  base::Counter& load_seconds_;
  base::Counter& loads_declined_;
  base::Counter& loads_failed_;
  base::Histogram& step_;
};

}  // namespace troupe::actors
