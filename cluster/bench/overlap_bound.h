// The least time that a plan can take when its rows are computed in parts, one's reduce under the others' compute (ISO): a list schedule
// of two resources, each first in, first out, with what fills and drains it. For `troupe bench tp`, which compares it with what is
// measured. Pure.
#pragma once
#include <span>

namespace troupe::cluster::bench {

/// Of all rows of a plan, in seconds.
struct SegmentTimes {
  double compute = 0;
  double wire = 0;  // of the reduce behind it; 0: none
};

/// One after the other.
double plain_time(std::span<const SegmentTimes> plan);
/// A1 B1 ... A2 B2 ... on the core, the reduces of A1 B1 ... on the wire in the same order; a part's next segment waits for its own reduce.
/// Part i has shares[i] of all times.
double overlapped_time(std::span<const SegmentTimes> plan, std::span<const double> shares);
/// With the best shares of two to `most_parts` parts, each the same multiple of the one before.
double overlap_bound(std::span<const SegmentTimes> plan, int most_parts);

}  // namespace troupe::cluster::bench
