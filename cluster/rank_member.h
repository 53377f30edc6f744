// RankMember: the actor of a rank process that brings its Shard into the cluster: connects to the door, asks to be let in until it is
// answered, and watches door and shard from then on. Tells once when there is nothing left to do here.
#pragma once
#include "cluster/rank_order.h"

#include <caf/actor_system.hpp>
#include <caf/actor.hpp>

#include <functional>
#include <string>

namespace troupe::cluster {

/// `on_end` comes from an actor's thread and must not block; no reason: door or shard was told to end.
caf::actor spawn_rank_member(caf::actor_system& system, const RankOrder& order, const caf::actor& link, const caf::actor& shard,
                             std::function<void(const std::string& reason)> on_end);

}  // namespace troupe::cluster
