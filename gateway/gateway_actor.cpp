// See gateway_actor.h.
#include "gateway/gateway_actor.h"

#include "messages/caf_types.h"
#include "messages/error_reasons.h"
#include "messages/session_store.capnp.h"
#include "messages/supervision.capnp.h"
#include "runtime/base/log.h"

#include <caf/all.hpp>

#include <unordered_map>
#include <utility>

namespace troupe::gateway {
namespace {

using LoopDrained = caf::atom_constant<caf::atom("gwdrained")>;  // from the loop thread, with the number of requests cut

Message<messages::RequestFinished> session_died(std::uint64_t request) {
  return Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder finished) {
    finished.setRequest(request);
    auto error = finished.getOutcome().initError();
    error.setClass(messages::ErrorClass::INTERNAL);
    error.setReason(static_cast<std::uint16_t>(ErrorReason::kActorDied));
    error.setClientText("the request failed inside the server; try it again");
    error.setOperatorDetail("the session died");
  });
}

class Behaviour final : public caf::event_based_actor {
 public:
  Behaviour(caf::actor_config& config, Gateway& gateway, GatewayLinks links)
      : caf::event_based_actor(config), gateway_(gateway), links_(std::move(links)) {}
  const char* name() const override { return "gateway"; }

  void on_exit() override {  // handles in here would keep others alive
    sessions_.clear();
    requests_.clear();
    drain_asker_ = {};
    links_ = {};
  }

  caf::behavior make_behavior() override {
    set_default_handler(caf::drop);  // ActorStarted and ActorGivenUp are for those who depend on a role; we look up anew
    set_down_handler([this](caf::down_msg& down) { on_down(down); });
    set_exception_handler([](std::exception_ptr&) -> caf::error {
      base::log(base::LogLevel::kError, "actor_failed", "role=gateway");
      return caf::exit_reason::unhandled_exception;
    });
    return {
        [this](const Message<messages::TokenDelta>& message) { gateway_.delta(message); },
        // From the loop thread.
        [this](const Message<messages::SubmitRequest>& message) { on_submit(message); },
        [this](const Message<messages::Cancel>& message) { on_cancel(message); },
        [this](const Message<messages::GrantCredit>& message) {
          if (auto found = sessions_.find(message->getRequest()); found != sessions_.end()) send(found->second.actor, message);
        },
        [this](const Message<messages::ConnectionClosed>& message) {
          if (auto store = links_.session_store ? links_.session_store() : caf::actor()) send(store, message);
        },
        [this](const Message<messages::LookUpResponse>& message) { ask_store(message); },
        [this](const Message<messages::ListResponses>& message) { ask_store(message); },
        [this](const Message<messages::PinResponse>& message) { ask_store(message); },
        [this](const Message<messages::DropResponse>& message) { ask_store(message); },
        [this](const Message<messages::ReadBlockEvents>& message) {
          if (auto tier = links_.device_tier ? links_.device_tier() : caf::actor()) send(tier, message);
        },
        // From the device tier.
        [this](const Message<messages::BlockEvents>& message) { gateway_.block_events(message); },
        // From the session store.
        [this](const Message<messages::ResponseFound>& message) { tell_loop(message); },
        [this](const Message<messages::ResponsesListed>& message) { tell_loop(message); },
        [this](const Message<messages::ResponsePinned>& message) { tell_loop(message); },
        [this](const Message<messages::ResponseDropped>& message) { tell_loop(message); },
        [this](const Message<messages::ResponseMissing>& message) { tell_loop(message); },
        [this](LoopDrained, std::uint32_t cut) { on_drained(cut); },
        // From sessions.
        [this](const Message<messages::RequestAdmitted>& message) {
          if (auto found = sessions_.find(message->getRequest()); found != sessions_.end()) found->second.admitted = true;
          gateway_.admitted(message);
        },
        [this](const Message<messages::RequestFinished>& message) { on_finished(message); },
        // From the router and the node supervisor.
        [this](const Message<messages::DirectoryChanged>& message) {
          gateway_.set_directory(message);
          if (!links_.on_serving) return;
          for (auto model : message->getModels())
            if (model.getReplicasServing() > 0) return links_.on_serving();
        },
        [this](const Message<messages::DrainNode>& message) {
          drain_asker_ = caf::actor_cast<caf::actor>(current_sender());
          gateway_.drain(std::chrono::milliseconds(message->getGraceMs()));
          if (drained_) on_drained(cut_);
        },
    };
  }

 private:
  struct Session {
    caf::actor actor;
    bool admitted = false;
    bool silent = false;  // nobody wants a terminal event
  };

  template <class Question>
  void ask_store(const Question& question) {
    if (auto store = links_.session_store ? links_.session_store() : caf::actor()) send(store, question);
  }

  template <class Answer>
  void tell_loop(const Answer& answer) {
    if (answer->getQuery() != 0) gateway_.store_answered(answer);
  }

  void on_submit(const Message<messages::SubmitRequest>& message) {
    auto request = message->getRequest();
    auto session = links_.spawn_session(caf::actor_cast<caf::actor>(this));
    if (!session) return gateway_.finished(session_died(request));
    monitor(session);
    requests_[session.address()] = request;
    sessions_[request] = {session};
    send(session, message);
  }

  void on_cancel(const Message<messages::Cancel>& message) {
    auto found = sessions_.find(message->getRequest());
    if (found == sessions_.end()) return;
    found->second.silent = found->second.silent || message->getSilent();
    // High priority overtakes; before the admission it could overtake the request itself.
    if (found->second.admitted)
      send<caf::message_priority::high>(found->second.actor, message);
    else
      send(found->second.actor, message);
  }

  void on_finished(const Message<messages::RequestFinished>& message) {
    if (auto found = sessions_.find(message->getRequest()); found != sessions_.end()) {
      demonitor(found->second.actor);
      requests_.erase(found->second.actor.address());
      sessions_.erase(found);
    }
    gateway_.finished(message);
  }

  void on_down(const caf::down_msg& down) {
    auto found = requests_.find(down.source);
    if (found == requests_.end()) return;
    auto request = found->second;
    bool silent = sessions_[request].silent;
    requests_.erase(found);
    sessions_.erase(request);
    if (silent) return;
    base::log(base::LogLevel::kError, "session_died", "request=" + std::to_string(request));
    gateway_.finished(session_died(request));
  }

  void on_drained(std::uint32_t cut) {
    drained_ = true;
    cut_ = cut;
    if (!drain_asker_) return;
    send(drain_asker_, Message<messages::Drained>::build([&](messages::Drained::Builder drained) {
           drained.setRole(messages::Role::GATEWAY);
           drained.setCut(cut);
         }));
    drain_asker_ = {};
  }

  Gateway& gateway_;
  GatewayLinks links_;
  std::unordered_map<std::uint64_t, Session> sessions_;          // by request
  std::unordered_map<caf::actor_addr, std::uint64_t> requests_;  // by session
  caf::actor drain_asker_;
  bool drained_ = false;
  std::uint32_t cut_ = 0;
};

}  // namespace

GatewayActor::GatewayActor(caf::actor_system& system, Gateway& gateway, GatewayLinks links)
    : gateway_(gateway), actor_(system.spawn<Behaviour>(std::ref(gateway), std::move(links))) {
  gateway.attach(*this);
  gateway.on_drained([actor = actor_](std::uint32_t cut) { caf::anon_send(actor, LoopDrained::value, cut); });
}

GatewayActor::~GatewayActor() {
  gateway_.on_drained({});  // the gateway outlives the actor_system: it may keep no handle
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
}

void GatewayActor::submit(Message<messages::SubmitRequest> request) { caf::anon_send(actor_, std::move(request)); }

void GatewayActor::cancel(RequestId request, bool silent) {
  caf::anon_send(actor_, Message<messages::Cancel>::build(
                             [&](messages::Cancel::Builder cancel) {
                               cancel.setRequest(request.value);
                               cancel.setSilent(silent);
                             },
                             16));
}

void GatewayActor::grant_credit(RequestId request, std::uint32_t deltas) {
  caf::anon_send(actor_, Message<messages::GrantCredit>::build(
                             [&](messages::GrantCredit::Builder credit) {
                               credit.setRequest(request.value);
                               credit.setDeltas(deltas);
                             },
                             16));
}

void GatewayActor::connection_closed(std::uint64_t connection) {
  caf::anon_send(actor_, Message<messages::ConnectionClosed>::build(
                             [&](messages::ConnectionClosed::Builder closed) { closed.setConnection(connection); }, 16));
}

void GatewayActor::drop_response(const Hash128& owner, const std::string& id) {
  caf::anon_send(actor_, Message<messages::DropResponse>::build([&](messages::DropResponse::Builder drop) {
                   drop.initOwner().setHigh(owner.high);
                   drop.getOwner().setLow(owner.low);
                   drop.setId(id);
                 }));
}

void GatewayActor::read_block_events(Message<messages::ReadBlockEvents> read) { caf::anon_send(actor_, std::move(read)); }

void GatewayActor::ask_store(StoreQuestion question) {
  std::visit([this](auto& message) { caf::anon_send(actor_, std::move(message)); }, question);
}

}  // namespace troupe::gateway
