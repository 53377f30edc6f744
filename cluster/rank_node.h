// `troupe shard`: the process of one rank: an actor system with the Shard, its compute thread, and the link to the process that started it.
// Main thread. It ends when that one is gone or sends SIGTERM, when its shard ends, or when it is refused.
#pragma once
#include <string>

namespace troupe::cluster {

/// The order (rank_order.h) is read from kSecretDescriptor. Exit code: 0 where it was told to end, else 1.
int run_rank_node();

}  // namespace troupe::cluster
