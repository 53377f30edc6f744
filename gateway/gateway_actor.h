// GatewayActor: the gateway's seat among the actors, the one place here that knows CAF. It implements EnginePort: spawns and monitors
// one session a request, forwards between it and the loop thread, and makes the terminal event of a session that died without one.
// The object is made and destroyed by the composition root, between the actor_system and Gateway::run(); EnginePort calls come from
// the loop thread, the actor itself runs on CAF's workers. Invariant: each submit() leads to exactly one finished(), or to none after
// a silent cancel.
#pragma once
#include "gateway/engine_port.h"
#include "gateway/gateway.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <functional>

namespace troupe::gateway {

/// Ways to other actors, looked up at each use: they may have been restarted since.
struct GatewayLinks {
  std::function<caf::actor(const caf::actor& gateway)> spawn_session;  // the session answers to `gateway` and monitors it
  std::function<caf::actor()> session_store;                           // may give a null handle
  std::function<caf::actor()> device_tier;                             // likewise
  std::function<void()> on_serving;                                    // each time the directory names a replica that serves
};

class GatewayActor final : public EnginePort {
 public:
  /// Attaches itself to `gateway` (attach and on_drained), which must outlive it. Destroy it after Gateway::run() has returned.
  GatewayActor(caf::actor_system& system, Gateway& gateway, GatewayLinks links);
  ~GatewayActor() override;
  GatewayActor(const GatewayActor&) = delete;
  GatewayActor& operator=(const GatewayActor&) = delete;

  /// Takes DirectoryChanged from the router, DrainNode (answered with Drained) and the messages of sessions.
  const caf::actor& actor() const { return actor_; }

  // EnginePort, loop thread.
  void submit(Message<messages::SubmitRequest> request) override;
  void cancel(RequestId request, bool silent) override;
  void grant_credit(RequestId request, std::uint32_t deltas) override;
  void connection_closed(std::uint64_t connection) override;
  void drop_response(const Hash128& owner, const std::string& id) override;
  void ask_store(StoreQuestion question) override;
  void read_block_events(Message<messages::ReadBlockEvents> read) override;

 private:
  Gateway& gateway_;
  caf::actor actor_;
};

}  // namespace troupe::gateway
