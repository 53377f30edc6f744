// ReplicaSupervisor: starts the shards of one replica and leads them through epochs (messages/shard_control.capnp, supervision.capnp).
// One for all: a rank that fails or dies ends the epoch for every rank; survivors leave it, and all enter the next one together.
// Invariants: at most one epoch is alive; the next begins only when every rank's compute thread has left the last one; GroupReady goes to
// the tiers before the scheduler, GroupLost to the scheduler first. A rank that has not left within the watchdog's time ignores the abort
// flag: in a process of its own it is killed, else the replica is lost for good, and so is the process.
// A rank in a process of its own is started by `start_rank` and comes in by the Door; one that dies, or does not come, is started again.
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
#include <vector>

namespace troupe::actors {

inline constexpr int kExitLoadFailed = 1;
inline constexpr int kExitEngineLost = 3;
/// Between the last word to the streams and the end of the process.
inline constexpr std::chrono::milliseconds kFarewell{500};

struct ReplicaSupervisorDependencies {
  std::shared_ptr<const ActorContext> context;
  ReplicaFacts facts;
  base::ParallelShape shape;
  /// Of the one rank, in this process; empty: start_rank has processes started, after it has killed what is left of the rank.
  std::function<caf::actor(caf::actor_system& system)> start_shard;
  std::function<void(std::uint16_t rank, Incarnation incarnation)> start_rank;
  std::chrono::milliseconds join_timeout{15'000};
  exec::ShardSpec shard;                // of each rank, but its place and interface
  std::vector<std::string> interfaces;  // of the data plane, by rank; empty: none
  std::string codec = "auto";
  std::chrono::milliseconds watchdog{30'000};
  RestartLimits epochs;
  /// Of the replica, not of this actor: its successor must go on counting. Starts at 0.
  std::shared_ptr<std::atomic<std::uint32_t>> last_epoch;
  std::function<void(std::size_t done, std::size_t total)> on_load_progress;  // of rank 0; may be empty
  std::function<void(const exec::ShardFacts& group)> on_ready;                // at the first GroupReady; may be empty
  std::function<void(int exit_code, const std::string& reason)> on_fatal;
};
caf::actor spawn_replica_supervisor(caf::actor_system& system, ReplicaSupervisorDependencies dependencies);

}  // namespace troupe::actors
