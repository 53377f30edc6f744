// ActorContext: what every actor of a node shares: the registry, metrics, and in tests a tap on all messages sent.
// Made once by the Company, immutable, handed down; any thread.
#pragma once
#include "actors/actor_registry.h"
#include "runtime/base/metrics.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace troupe::actors {

struct ActorContext {
  std::shared_ptr<ActorRegistry> registry;
  std::shared_ptr<base::Metrics> metrics;
  /// Called for each message before it is sent: sender's name, receiver's CAF id, schema name. Empty outside tests.
  std::function<void(std::string_view sender, std::uint64_t receiver, std::string_view message)> tap;
};

}  // namespace troupe::actors
