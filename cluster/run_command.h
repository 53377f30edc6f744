// `troupe run`: one prompt, its answer on standard output. For scripts: no conversation, exit codes that tell how it ended.
#pragma once
#include "cluster/options.h"

namespace troupe::cluster {

/// 0: answered, to its end or to the limit of tokens; 1: not, with the reason on standard error; 130: Ctrl-C.
int run_prompt(const Options& options);

}  // namespace troupe::cluster
