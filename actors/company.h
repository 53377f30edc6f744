// Company: all actors of a node with one replica: node supervisor, session store, router, scheduler, cache tiers, replica supervisor and
// its shard; sessions are spawned one a request. Owned by the composition root, which also owns the actor_system (destroyed after it).
// Methods may be called from any thread. How a gateway is joined to it:
//   1. spawn the gateway's actor; give it `company.session_factory()` and `company.find(Role::SESSION_STORE)` look-ups as functions;
//   2. `company.attach_gateway(actor)`: from now on it receives Message<DirectoryChanged> (at once, and after each change) and, at a
//      drain, Message<DrainNode>, which it answers with Message<Drained> to the sender.
// For each request the gateway's actor calls the factory with its own handle, monitors the session and sends it Message<SubmitRequest>.
// The session answers with RequestAdmitted, TokenDelta*, exactly one RequestFinished, and quits; the gateway sends GrantCredit and
// (high priority) Cancel. A session that goes down before RequestFinished leaves the terminal event to the gateway.
#pragma once
#include "actors/actor_registry.h"
#include "actors/door_actor.h"
#include "actors/replica_spec.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace troupe::actors {

/// Spawns a RequestSession that answers to `gateway` and monitors it. Any thread.
using SessionFactory = std::function<caf::actor(const caf::actor& gateway)>;

class Company {
 public:
  /// Spawns everything and begins to load the model; returns at once. Until the first DirectoryChanged with a serving replica the
  /// model cannot be used.
  Company(caf::actor_system& system, CompanySpec spec);
  ~Company();  // ends all actors of the company; does not wait for them (the actor_system does)
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

  SessionFactory session_factory() const;
  void attach_gateway(const caf::actor& gateway);
  /// Where rank processes come in; for publication on the control port. Where ranks are processes, once.
  caf::actor open_door(DoorSpec spec);
  /// Such a process is no more. Any thread.
  void tell_rank_ended(std::uint16_t rank, Incarnation incarnation, const std::string& how);
  /// SIGTERM: the gateway is drained first, then the scheduler, then a disk tier takes what it lacks; `on_drained` tells the end. A second
  /// call shortens the grace time.
  void drain(std::chrono::milliseconds grace);
  /// The actor that plays a role at the moment; null if none.
  caf::actor find(Role role, std::uint32_t index = 0) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace troupe::actors
