#include "actors/scheduler_metrics.h"

#include "runtime/base/metric_names.h"

namespace troupe::actors {
namespace metric = base::metric;

SchedulerMetrics::SchedulerMetrics(base::Metrics& metrics, const schedule::SchedulerOptions& options)
    : running_(metrics.gauge(metric::kRequestsRunning, "sequences in the batch")),
      waiting_(metrics.gauge(metric::kRequestsWaiting, "requests in the queue")),
      leased_(metrics.gauge(metric::kLeasedBlocks, "free blocks that the scheduler keeps at hand")),
      prompt_tokens_(metrics.counter(metric::kPromptTokens, "prompt tokens processed, cached ones included")),
      generated_tokens_(metrics.counter(metric::kGenerationTokens, "tokens generated")),
      preemptions_(metrics.counter(metric::kPreemptions, "sequences preempted")),
      steps_(metrics.counter(metric::kSteps, "steps of the engine")),
      overruns_(metrics.counter(metric::kStallOverruns, "steps beyond the stall budget while a stream was running")),
      margin_(metrics.gauge(metric::kStepMargin, "measured over predicted time that most steps with prompt tokens stay below")),
      delivery_(metrics.gauge(metric::kDeliveryReserve, "what delivery takes out of the stall budget: window and measured lateness")),
      wasted_rows_(metrics.counter(metric::kWastedRows, "rows computed for sequences that had ended")),
      overlapped_steps_(metrics.counter(metric::kOverlappedSteps, "steps computed in parts, one's reduces under the others' compute")),
      wire_seconds_(metrics.counter(metric::kWireSeconds, "time of steps in which a reduce was under way")),
      wire_wait_seconds_(metrics.counter(metric::kWireWaitSeconds, "time of steps in which the shards only waited for each other's bytes")),
      host_blocks_loaded_(metrics.counter(metric::kLoadedBlocks, "blocks loaded to the device", {{"tier", "host"}})),
      disk_blocks_loaded_(metrics.counter(metric::kLoadedBlocks, "blocks loaded to the device", {{"tier", "disk"}})),
      load_seconds_(metrics.counter(metric::kLoadSeconds, "time that sequences waited for loads")),
      loads_declined_(
          metrics.counter(metric::kLoadsNotDone, "prefixes below the device that were computed", {{"reason", "cheaper_to_compute"}})),
      loads_failed_(metrics.counter(metric::kLoadsNotDone, "prefixes below the device that were computed", {{"reason", "move_failed"}})),
      step_(metrics.histogram(metric::kStepSeconds, "compute time of a step",
                              {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5})) {
  for (base::Gauge* gauge : {&running_, &waiting_, &leased_, &delivery_}) gauge->set(0);  // of a scheduler that was here before
  margin_.set(told_.step_margin);
  metrics.gauge(metric::kStallBudget, "declared largest gap between tokens of a running stream").set(options.stall_budget_ms / 1000.0);
}

void SchedulerMetrics::report(const schedule::SchedulerStats& stats) {
  const auto set = [](base::Gauge& gauge, auto before, auto after) {
    if (after != before) gauge.set(after);
  };
  set(running_, told_.running, stats.running);
  set(waiting_, told_.waiting, stats.waiting);
  set(leased_, told_.leased_blocks, stats.leased_blocks);
  set(margin_, told_.step_margin, stats.step_margin);
  set(delivery_, told_.delivery_us / 1e6, stats.delivery_us / 1e6);
  base::count_up(prompt_tokens_, told_.prompt_tokens, stats.prompt_tokens);
  base::count_up(generated_tokens_, told_.generated_tokens, stats.generated_tokens);
  base::count_up(preemptions_, told_.preemptions, stats.preemptions);
  base::count_up(steps_, told_.steps, stats.steps);
  base::count_up(overruns_, told_.stall_overruns, stats.stall_overruns);
  base::count_up(wasted_rows_, told_.wasted_rows, stats.wasted_rows);
  base::count_up(host_blocks_loaded_, told_.host_blocks_loaded, stats.host_blocks_loaded);
  base::count_up(disk_blocks_loaded_, told_.disk_blocks_loaded, stats.disk_blocks_loaded);
  base::count_up(overlapped_steps_, told_.overlapped_steps, stats.overlapped_steps);
  const auto count_time = [](base::Counter& seconds, std::uint64_t before_us, std::uint64_t after_us) {
    if (after_us > before_us) seconds.increment(static_cast<double>(after_us - before_us) / 1e6);
  };
  count_time(load_seconds_, told_.load_us, stats.load_us);
  count_time(wire_seconds_, told_.wire_us, stats.wire_us);
  count_time(wire_wait_seconds_, told_.wait_us, stats.wait_us);
  base::count_up(loads_declined_, told_.loads_declined, stats.loads_declined);
  base::count_up(loads_failed_, told_.loads_failed, stats.loads_failed);
  told_ = stats;
}

}  // namespace troupe::actors
