// SessionStore: the actor around session::ResponseStore (messages/session_store.capnp). Where responses are kept on disk it has a thread of
// its own, since it waits for the disk; "stored" is said once the disk has said so. Pins go to the device tier through the router and are
// told again every half minute: a tier or a router that was restarted knows none. Pins of responses on disk outlive the process.
#pragma once
#include "actors/actor_context.h"
#include "runtime/session/response_log.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

namespace troupe::actors {

struct SessionStoreDependencies {
  std::shared_ptr<const ActorContext> context;
  std::chrono::seconds default_ttl{3600};
  std::size_t max_tokens = 16U << 20;
  std::optional<session::ResponseLogOptions> log = {};  // none: memory only
};
caf::actor spawn_session_store(caf::actor_system& system, SessionStoreDependencies dependencies);

}  // namespace troupe::actors
