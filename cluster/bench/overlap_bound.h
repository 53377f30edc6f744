// The least time that a plan can take when its rows are computed in two parts, one's reduce under the other's compute (ISO): a list
// schedule of two resources, each first in, first out, with what fills and drains it. For `troupe bench tp`, which compares it with what
// is measured. Pure.
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
/// A1 B1 A2 B2 ... on the core, the reduces of A1 B1 A2 ... on the wire; a part's next segment waits for its own reduce. The first part
/// has `share` of all times.
double overlapped_time(std::span<const SegmentTimes> plan, double share);
/// With the best share.
double overlap_bound(std::span<const SegmentTimes> plan);

}  // namespace troupe::cluster::bench
