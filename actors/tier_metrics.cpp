#include "actors/tier_metrics.h"

#include "runtime/base/metric_names.h"

namespace troupe::actors {
namespace metric = base::metric;
namespace {

base::Gauge& blocks(base::Metrics& metrics, const std::string& tier, const char* state) {
  return metrics.gauge(metric::kTierBlocks, "blocks of a cache tier by state", {{"tier", tier}, {"state", state}});
}
base::Counter& evicted(base::Metrics& metrics, const std::string& tier, const char* written) {
  return metrics.counter(metric::kTierEvicted, "blocks evicted from a cache tier, by whether the tier below has had them",
                         {{"tier", tier}, {"written", written}});
}
base::Counter& failures(base::Metrics& metrics, const std::string& tier, const char* what) {
  return metrics.counter(metric::kTierFailures, "blocks that could not be written to a cache tier, loaded from it, or found no room there",
                         {{"tier", tier}, {"what", what}});
}

}  // namespace

TierMetrics::TierMetrics(base::Metrics& metrics, const std::string& tier)
    : queries_(metrics.counter(metric::kTierQueries, "prompt tokens looked up in a cache tier", {{"tier", tier}})),
      hits_(metrics.counter(metric::kTierHits, "prompt tokens found in a cache tier", {{"tier", tier}})),
      written_(metrics.counter(metric::kTierWritten, "blocks written to a cache tier", {{"tier", tier}})),
      bytes_(metrics.counter(metric::kTierBytes, "bytes written to a cache tier", {{"tier", tier}})),
      evicted_written_(evicted(metrics, tier, "yes")),
      evicted_unwritten_(evicted(metrics, tier, "no")),
      failed_writes_(failures(metrics, tier, "write")),
      failed_loads_(failures(metrics, tier, "load")),
      no_room_(failures(metrics, tier, "room")),
      unwritten_(metrics.gauge(metric::kTierUnwritten, "blocks of a cache tier that the tier below does not have yet", {{"tier", tier}})),
      stored_(blocks(metrics, tier, "stored")),
      locked_(blocks(metrics, tier, "locked")),
      free_(blocks(metrics, tier, "free")) {}

void TierMetrics::report(const TierFigures& now) {
  base::count_up(queries_, told_.query_tokens, now.query_tokens);
  base::count_up(hits_, told_.hit_tokens, now.hit_tokens);
  base::count_up(written_, told_.written_blocks, now.written_blocks);
  base::count_up(evicted_written_, told_.evicted_written, now.evicted_written);
  base::count_up(evicted_unwritten_, told_.evicted_unwritten, now.evicted_unwritten);
  base::count_up(failed_writes_, told_.failed_writes, now.failed_writes);
  base::count_up(failed_loads_, told_.failed_loads, now.failed_loads);
  base::count_up(no_room_, told_.no_room, now.no_room);
  unwritten_.set(now.unwritten);
  stored_.set(now.stored);
  locked_.set(now.locked);
  free_.set(now.free);
  told_ = now;
}

}  // namespace troupe::actors
