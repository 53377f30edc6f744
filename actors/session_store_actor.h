// SessionStore: the actor around session::SessionTree (messages/session_store.capnp). Memory only: a response that was to survive on disk
// is kept in memory and said to have failed, never called stored. Pins need a lower tier and are refused.
#pragma once
#include "actors/actor_context.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <chrono>
#include <cstddef>
#include <memory>

namespace troupe::actors {

struct SessionStoreDependencies {
  std::shared_ptr<const ActorContext> context;
  std::chrono::seconds default_ttl{3600};
  std::size_t max_tokens = 16U << 20;
};
caf::actor spawn_session_store(caf::actor_system& system, SessionStoreDependencies dependencies);

}  // namespace troupe::actors
