// `troupe shard`: the process of one rank: an actor system with the Shard, its compute thread, and the link to the process that started it.
// Main thread. It ends when that one is gone, when its shard ends, when it is refused, or at SIGTERM.
#pragma once
#include <string>

namespace troupe::cluster {

/// The order (rank_order.h) is read from kSecretDescriptor. Exit code: 0 at SIGTERM, else 1.
int run_rank_node();

}  // namespace troupe::cluster
