// CacheTier(device): the actor around kv::DeviceTier, which holds index, locks and policy of the blocks in device memory.
// Speaks messages/cache.capnp with its holder, the scheduler, and with the tier below, if there is one (tier_actor.h); learns of epochs
// from the ReplicaSupervisor. A message of an older epoch is dropped unread: its locks and leases are void.
#pragma once
#include "actors/actor_context.h"
#include "messages/ids.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <memory>

namespace troupe::actors {

struct DeviceTierDependencies {
  std::shared_ptr<const ActorContext> context;
  std::uint32_t replica = 1;
};
caf::actor spawn_device_tier(caf::actor_system& system, DeviceTierDependencies dependencies);

}  // namespace troupe::actors
