// `troupe chat`: a conversation in the terminal, with a server or with a model in this process. Main thread; an embedded node's loop
// has a thread of its own and listens on a free port of 127.0.0.1, so both ways are one code path.
#pragma once
#include "cluster/options.h"

namespace troupe::cluster {

/// Exit code: 0, or 1 with a line that says what is wrong.
int run_chat(const Options& options);

}  // namespace troupe::cluster
