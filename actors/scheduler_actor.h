// Scheduler: the actor around schedule::Scheduler, which holds queues, sequences and block tables of one replica.
// Turns messages into calls and what a call left to be sent into messages: plans first, so that the shard never waits for deliveries.
// Monitors the session of every live request: a session that dies has its sequences aborted.
#pragma once
#include "actors/actor_context.h"
#include "actors/replica_facts.h"
#include "runtime/schedule/scheduler.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <memory>

namespace troupe::actors {

struct SchedulerDependencies {
  std::shared_ptr<const ActorContext> context;
  ReplicaFacts facts;
  schedule::SchedulerOptions options;
};
caf::actor spawn_scheduler(caf::actor_system& system, SchedulerDependencies dependencies);

}  // namespace troupe::actors
