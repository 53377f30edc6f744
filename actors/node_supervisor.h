// NodeSupervisor: keeps the actors of a node alive. Children are data: a role, how to start it, who has to hear of it.
// A child that dies is started again within the restart window; the death of a scheduler or device tier also restarts the shard group
// (RestartGroup), because leases and locks are void with either. A window that is used up ends what the child served.
// Also leads a drain: gateway, then scheduler, then, where there is a disk tier, what it does not have yet.
#pragma once
#include "actors/actor_context.h"
#include "actors/replica_spec.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

struct ChildSpec {
  Role role;
  std::uint32_t index = 0;
  std::function<caf::actor(caf::actor_system&)> start;
  std::vector<Role> dependants;  // hear ActorStarted and ActorGivenUp
  bool restarts_group = false;   // its death voids leases and locks
  bool vital = true;             // given up: the process has nothing left to serve
};

struct NodeSupervisorDependencies {
  std::shared_ptr<const ActorContext> context;
  std::vector<ChildSpec> children;  // in order of start; ended in reverse order
  RestartLimits limits;
  std::uint32_t replica = 1;
  std::function<void(int exit_code, const std::string& reason)> on_fatal;
  std::function<void(std::uint32_t cut)> on_drained;
};

/// Takes ActorStarted{gateway} (a gateway has been attached) and DrainNode; an exit message ends all children, then itself.
caf::actor spawn_node_supervisor(caf::actor_system& system, NodeSupervisorDependencies dependencies);

}  // namespace troupe::actors
