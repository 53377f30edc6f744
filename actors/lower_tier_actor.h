// CacheTier(host) and CacheTier(disk): the actor around kv::LowerTier, one class for both. Speaks messages/cache.capnp with its holder, the
// tier above, and messages/moves.capnp with the shards, which have the bytes: it says what is written where, they do it, and what one rank
// failed is on none. Learns of epochs from the ReplicaSupervisor, or from its holder where it has started anew.
// Invariant: nothing is matched or written before all ranks have told what they hold.
#pragma once
#include "actors/actor_context.h"
#include "messages/ids.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <memory>

namespace troupe::actors {

struct LowerTierDependencies {
  std::shared_ptr<const ActorContext> context;
  Tier tier = Tier::kHost;  // or kDisk
  std::uint32_t replica = 1;
  bool successor = false;  // of one that has died: the ranks' reports went to that one
};
caf::actor spawn_lower_tier(caf::actor_system& system, LowerTierDependencies dependencies);

}  // namespace troupe::actors
