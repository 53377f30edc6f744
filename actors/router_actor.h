// Router: knows the replicas of the models that a node serves and names one for each request. With one replica there is little to choose:
// it refuses at once what the replica's last load says cannot be queued, and tells the gateway which models can be used.
#pragma once
#include "actors/actor_context.h"
#include "messages/ids.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <memory>

namespace troupe::actors {

struct RouterDependencies {
  std::shared_ptr<const ActorContext> context;
  ReplicaId replica{1};
};
caf::actor spawn_router(caf::actor_system& system, RouterDependencies dependencies);

}  // namespace troupe::actors
