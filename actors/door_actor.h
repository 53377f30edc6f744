// Door: where rank processes of this node's replica come in. Checks who asks (cluster, version of the messages, cluster file, and that the
// certificate of its node names the rank it says to be), and leads it to the ReplicaSupervisor. Who may not come in is told why.
// Owner: the Company. Invariant: no handle reaches the supervisor that was not checked.
#pragma once
#include "actors/actor_context.h"
#include "actors/ask_peer_names.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

struct DoorSpec {
  std::string cluster;
  Hash128 digest;                  // of the cluster file
  std::vector<std::string> nodes;  // names, by rank
  AskPeerNames ask_names;
};
struct DoorDependencies {
  std::shared_ptr<const ActorContext> context;
  std::uint32_t replica = 1;
  DoorSpec spec;
};
/// Takes Message<Join> with the handle of a shard behind it.
caf::actor spawn_door(caf::actor_system& system, DoorDependencies dependencies);

}  // namespace troupe::actors
