// `troupe serve`: a node and what the user sees of it. Main thread.
#pragma once
#include "cluster/options.h"

namespace troupe::cluster {

/// Exit code: 0 after a drain, 1 for anything the user has to change, else that of the fault.
int run_serve(const Options& options);

}  // namespace troupe::cluster
