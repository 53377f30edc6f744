// `troupe bench`: measures what it is asked to in turns, and writes a table, JSON or a page. Main thread; SIGINT ends the measuring and
// what there is so far is written.
#pragma once
#include "cluster/options.h"

namespace troupe::cluster {

/// Returns the exit code: 1 after a fault or if a request failed, 130 after SIGINT.
int run_bench(const Options& options);

}  // namespace troupe::cluster
