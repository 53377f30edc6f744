// `troupe inspect`: the facts of a model file, without loading it. Main thread only.
#pragma once
#include "cluster/options.h"

namespace troupe::cluster {

/// 0: the file can be served; 1: it cannot, or cannot be read. The reason is told, in one line.
int run_inspect(const Options& options);

}  // namespace troupe::cluster
