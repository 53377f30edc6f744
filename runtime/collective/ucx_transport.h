// UCX: ranks in processes of their own, on one host (shared memory) or on several (TCP over one named interface).
// A port and then its transport belong to the rank's compute thread. Peers are trusted once they have shown the epoch's token, and
// whoever reaches the interface can disturb it: it is for a trusted network.
// Invariant: tags hold epoch, sender and channel, so that a message of another epoch matches nothing.
#pragma once
#include "runtime/collective/transport.h"

#include <memory>

namespace troupe::collective {

Result<std::unique_ptr<Port>> open_ucx_port(const TransportSpec& spec);

}  // namespace troupe::collective
