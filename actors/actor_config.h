// ActorConfig: CAF's configuration as Troupe wants it. Reads no file and no command line.
// Policy "sharing": idle workers sleep instead of polling for work to steal, which leaves the cores to the compute team.
#pragma once
#include <caf/actor_system_config.hpp>

#include <cstddef>

namespace troupe::actors {

/// CAF workers for a node with `cores` cores: 1 below 4, else 2.
std::size_t default_workers(std::size_t cores);

class ActorConfig : public caf::actor_system_config {
 public:
  explicit ActorConfig(std::size_t workers);
  /// Deterministic scheduler with virtual time: nothing runs but when the test says so.
  struct Testing {};
  explicit ActorConfig(Testing);
};

}  // namespace troupe::actors
