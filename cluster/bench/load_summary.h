// What the calls of one load have in common: latencies, means of a request, tokens a second. Pure; any thread.
#pragma once
#include "cluster/bench/load_client.h"

#include <limits>
#include <vector>

namespace troupe::cluster::bench {

/// Appends the gaps between two events with text that reach into (since, until); seconds.
void append_gaps(std::vector<double>& to, const CallResult& result, double since = -std::numeric_limits<double>::infinity(),
                 double until = std::numeric_limits<double>::infinity());
/// Without its scenario's name and the number of clients. `wall`: seconds of all calls together.
HttpFigure load_summary(const std::vector<CallResult>& results, double wall);

}  // namespace troupe::cluster::bench
