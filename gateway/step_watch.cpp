// See step_watch.h.
#include "gateway/step_watch.h"

#include "runtime/base/metric_names.h"

#include <utility>

namespace troupe::gateway {
namespace {

constexpr std::uint64_t kBlindMs = 1000;  // nobody looked for so long: what happened meanwhile is not known

}  // namespace

StepWatch::StepWatch(base::Metrics& metrics, unsigned limit_ms)
    : running_(metrics.gauge(base::metric::kRequestsRunning, "sequences in the batch")),
      waiting_(metrics.gauge(base::metric::kRequestsWaiting, "requests in the queue")),
      steps_(metrics.counter(base::metric::kSteps, "steps of the engine")),
      limit_ms_(limit_ms) {}

void StepWatch::look(std::uint64_t now) {
  const double steps = steps_.value();
  const bool moved = std::exchange(seen_steps_, steps) != steps;
  const bool idle = running_.value() == 0 && waiting_.value() == 0;
  const bool blind = now - std::exchange(looked_at_, now) > kBlindMs;
  if (moved || idle || blind) moved_at_ = now;
}

}  // namespace troupe::gateway
