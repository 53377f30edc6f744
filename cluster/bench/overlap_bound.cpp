// See overlap_bound.h.
#include "cluster/bench/overlap_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace troupe::cluster::bench {

double plain_time(std::span<const SegmentTimes> plan) {
  double sum = 0;
  for (const SegmentTimes& segment : plan) sum += segment.compute + segment.wire;
  return sum;
}

double overlapped_time(std::span<const SegmentTimes> plan, std::span<const double> shares) {
  double core = 0, wire = 0, end = 0;             // when each is free; when all is done
  std::vector<double> ready(shares.size(), 0.0);  // when a part's next segment may begin
  for (const SegmentTimes& segment : plan)
    for (std::size_t part = 0; part < shares.size(); ++part) {
      core = std::max(core, ready[part]) + shares[part] * segment.compute;
      ready[part] = core;
      if (segment.wire > 0) ready[part] = wire = std::max(wire, core) + shares[part] * segment.wire;
      end = std::max(end, ready[part]);
    }
  return end;
}

double overlap_bound(std::span<const SegmentTimes> plan, int most_parts) {
  constexpr int kSteps = 32;
  constexpr double kMostGrowth = 4;
  double best = plain_time(plan);
  for (int parts = 2; parts <= most_parts; ++parts)
    for (int step = -kSteps; step <= kSteps; ++step) {
      const double growth = std::pow(kMostGrowth, static_cast<double>(step) / kSteps);
      std::vector<double> shares{1};
      while (shares.size() < static_cast<std::size_t>(parts)) shares.push_back(shares.back() * growth);
      const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
      for (double& share : shares) share /= sum;
      best = std::min(best, overlapped_time(plan, shares));
    }
  return best;
}

}  // namespace troupe::cluster::bench
