// Shard: one rank. A scheduled actor that drives one compute thread, so it answers control while a step runs.
// The compute thread loads, enters epochs and runs plans in the order they were posted, and sends ForwardResult straight to the scheduler.
// Moves of blocks go to the rank's stores when they arrive, beside the steps; the mover's thread sends MovesFinished straight to who asked.
// Watchdog: a job that makes no progress for the watchdog's time sets the abort flag, which the executor polls between segments.
// Invariant: EpochLeft is sent from the compute thread, behind all jobs and moves of the epoch: nothing of it runs any more.
#pragma once
#include "actors/actor_context.h"
#include "actors/compute.h"
#include "messages/ids.h"
#include "runtime/exec/shard_engine.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <functional>
#include <memory>

namespace troupe::actors {

struct ShardDependencies {
  std::shared_ptr<const ActorContext> context;
  std::shared_ptr<Compute> compute;  // of the rank; outlives the actor
  std::function<std::unique_ptr<exec::ShardEngine>()> make_engine;
  /// Adds to what LoadShard says what this process alone knows (ShardSpec::known_content, cache_in_background); may be empty.
  std::function<void(exec::ShardSpec&)> complete;
};
caf::actor spawn_shard(caf::actor_system& system, ShardDependencies dependencies);

}  // namespace troupe::actors
