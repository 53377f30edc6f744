// ReplicaSupervisor: starts the shards of one replica and leads them through epochs (messages/shard_control.capnp, supervision.capnp).
// One for all: a rank that fails or dies ends the epoch for every rank; survivors leave it, and all enter the next one together.
// Invariants: at most one epoch is alive; the next begins only when every rank's compute thread has left the last one; GroupReady goes to
// the tiers before the scheduler, GroupLost to the scheduler first. A rank that has not left within the watchdog's time ignores the abort
// flag: the replica is lost for good, and with one process so is it.
#pragma once
#include "actors/actor_context.h"
#include "actors/replica_facts.h"
#include "actors/replica_spec.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::actors {

inline constexpr int kExitLoadFailed = 1;
inline constexpr int kExitEngineLost = 3;
/// Between the last word to the streams and the end of the process.
inline constexpr std::chrono::milliseconds kFarewell{500};

struct ReplicaSupervisorDependencies {
  std::shared_ptr<const ActorContext> context;
  ReplicaFacts facts;
  std::uint16_t ranks = 1;
  std::function<caf::actor(caf::actor_system& system, std::uint16_t rank)> start_shard;
  exec::ShardSpec shard;
  std::chrono::milliseconds watchdog{30'000};
  RestartLimits epochs;
  /// Of the replica, not of this actor: its successor must go on counting. Starts at 0.
  std::shared_ptr<std::atomic<std::uint32_t>> last_epoch;
  std::function<void(std::size_t done, std::size_t total)> on_load_progress;  // of rank 0; may be empty
  std::function<void()> on_ready;                                             // at the first GroupReady; may be empty
  std::function<void(int exit_code, const std::string& reason)> on_fatal;
};
caf::actor spawn_replica_supervisor(caf::actor_system& system, ReplicaSupervisorDependencies dependencies);

}  // namespace troupe::actors
