// ActorRegistry: finds the living actor behind an ActorAddress (common.capnp). One per node, owned by the Company, handed to every actor.
// Any thread. Invariant: a newer incarnation replaces an older one and gets a larger number; an address of an older one finds nothing.
#pragma once
#include "messages/common.capnp.h"
#include "messages/ids.h"

#include <caf/actor.hpp>

#include <map>
#include <mutex>
#include <utility>

namespace troupe::actors {

using messages::Role;

/// New at each start of a process; not 0, and far from the largest.
Incarnation random_incarnation();

class ActorRegistry {
 public:
  /// `first_incarnation`: random_incarnation() of this process.
  ActorRegistry(NodeId node, Incarnation first_incarnation) : node_(node), last_(first_incarnation) {}

  /// Registers the actor that plays `role` from now on; returns its incarnation.
  Incarnation put(Role role, std::uint32_t index, caf::actor actor);
  /// Of an actor of another node: `address` finds it from now on, on this node too.
  void introduce(messages::ActorAddress::Reader address, caf::actor actor);
  /// A null handle where nobody plays the role. The actor may have died already: monitor it.
  caf::actor find(Role role, std::uint32_t index = 0) const;
  /// Of who plays the role at the moment; 0 where nobody does.
  Incarnation incarnation(Role role, std::uint32_t index = 0) const;
  /// Null for a node that it does not live on, an unknown role, or an incarnation that is not the present one.
  caf::actor resolve(messages::ActorAddress::Reader address) const;
  /// Writes the address of the present incarnation.
  void write_address(messages::ActorAddress::Builder address, Role role, std::uint32_t index = 0) const;
  /// Removes the role if `id` still plays it (a successor stays).
  void erase(Role role, std::uint32_t index, caf::actor_id id);
  /// Lets all handles go: actors refer to the registry, so the owner must break the cycle at the end.
  void clear();

 private:
  struct Entry {
    caf::actor actor;
    Incarnation incarnation = 0;
    NodeId node;
  };
  NodeId node_;
  mutable std::mutex mutex_;
  Incarnation last_;
  std::map<std::pair<Role, std::uint32_t>, Entry> entries_;
};

}  // namespace troupe::actors
