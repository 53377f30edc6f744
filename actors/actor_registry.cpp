#include "actors/actor_registry.h"

#include <random>

namespace troupe::actors {

Incarnation random_incarnation() {
  std::random_device random;
  return (static_cast<Incarnation>(random()) << 31) | 1;
}

Incarnation ActorRegistry::put(Role role, std::uint32_t index, caf::actor actor) {
  const std::lock_guard guard(mutex_);
  auto& entry = entries_[{role, index}];
  entry.actor = std::move(actor);
  entry.node = node_;
  return entry.incarnation = ++last_;
}

void ActorRegistry::introduce(messages::ActorAddress::Reader address, caf::actor actor) {
  const std::lock_guard guard(mutex_);
  entries_[{address.getRole(), address.getIndex()}] = {std::move(actor), address.getIncarnation(), NodeId{address.getNode()}};
}

caf::actor ActorRegistry::find(Role role, std::uint32_t index) const {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find({role, index});
  return entry == entries_.end() ? caf::actor{} : entry->second.actor;
}

Incarnation ActorRegistry::incarnation(Role role, std::uint32_t index) const {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find({role, index});
  return entry == entries_.end() || !entry->second.actor ? 0 : entry->second.incarnation;
}

caf::actor ActorRegistry::resolve(messages::ActorAddress::Reader address) const {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find({address.getRole(), address.getIndex()});
  if (entry == entries_.end() || entry->second.node.value != address.getNode() || entry->second.incarnation != address.getIncarnation())
    return {};
  return entry->second.actor;
}

void ActorRegistry::write_address(messages::ActorAddress::Builder address, Role role, std::uint32_t index) const {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find({role, index});
  address.setNode(entry == entries_.end() ? node_.value : entry->second.node.value);
  address.setRole(role);
  address.setIndex(index);
  address.setIncarnation(entry == entries_.end() ? 0 : entry->second.incarnation);
}

void ActorRegistry::erase(Role role, std::uint32_t index, caf::actor_id id) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find({role, index});
  if (entry != entries_.end() && entry->second.actor && entry->second.actor.id() == id) entries_.erase(entry);
}

void ActorRegistry::clear() {
  std::map<std::pair<Role, std::uint32_t>, Entry> dead;
  const std::lock_guard guard(mutex_);
  dead.swap(entries_);  // handles are let go outside the map, yet under the lock: a dying actor's destructor does not look anything up
}

}  // namespace troupe::actors
