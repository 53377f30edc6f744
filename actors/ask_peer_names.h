// AskPeerNames: how the Door learns whom the certificate at the other end of a connection names. The link answers (cluster/link); tests
// answer as they like. A header of its own, since the link knows no other actor.
#pragma once
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>

#include <functional>
#include <string>
#include <vector>

namespace troupe::actors {

/// Asks for the names in the certificate of the node that `peer` lives on; none where it is not directly connected.
using AskPeerNames =
    std::function<void(caf::event_based_actor& asker, const caf::actor& peer, std::function<void(const std::vector<std::string>&)> done)>;

}  // namespace troupe::actors
