// See overlap_bound.h.
#include "cluster/bench/overlap_bound.h"

#include <algorithm>

namespace troupe::cluster::bench {

double plain_time(std::span<const SegmentTimes> plan) {
  double sum = 0;
  for (const SegmentTimes& segment : plan) sum += segment.compute + segment.wire;
  return sum;
}

double overlapped_time(std::span<const SegmentTimes> plan, double share) {
  const double shares[2] = {share, 1 - share};
  double core = 0, wire = 0;  // when each is free
  double ready[2] = {};       // when a part's next segment may begin
  for (const SegmentTimes& segment : plan)
    for (int part = 0; part < 2; ++part) {
      core = std::max(core, ready[part]) + shares[part] * segment.compute;
      ready[part] = core;
      if (segment.wire > 0) ready[part] = wire = std::max(wire, core) + shares[part] * segment.wire;
    }
  return std::max({core, ready[0], ready[1]});
}

double overlap_bound(std::span<const SegmentTimes> plan) {
  constexpr int kSteps = 64;
  double best = plain_time(plan);
  for (int step = 1; step < kSteps; ++step) best = std::min(best, overlapped_time(plan, static_cast<double>(step) / kSteps));
  return best;
}

}  // namespace troupe::cluster::bench
