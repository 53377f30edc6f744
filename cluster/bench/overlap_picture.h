// Picture of a step with and without overlap: what two ranks compute and what is on their wires in two layers, plain above, in parts (ISO)
// below, on one scale. A file of its own (SVG) that fits light and dark pages. Pure.
#pragma once
#include "cluster/bench/wire_trace.h"

#include <string>
#include <vector>

namespace troupe::cluster::bench {

/// Spans of one step each. Layers in the middle of the model are shown.
std::string overlap_picture(const std::vector<TraceSpan>& plain, const std::vector<TraceSpan>& overlapped);

}  // namespace troupe::cluster::bench
