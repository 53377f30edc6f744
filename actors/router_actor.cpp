#include "actors/router_actor.h"

#include "actors/actor_base.h"
#include "actors/wire/admission.h"
#include "actors/wire/common.h"
#include "messages/cache.capnp.h"
#include "messages/error_reasons.h"
#include "messages/supervision.capnp.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace troupe::actors {
namespace {

class RouterActor final : public ActorBase {
 public:
  RouterActor(caf::actor_config& config, RouterDependencies dependencies)
      : ActorBase(config, std::move(dependencies.context), "Router"), replica_(dependencies.replica) {
    set_down_handler([this](const caf::down_msg& down) {
      if (!scheduler_ || scheduler_.address() != down.source) return;
      scheduler_ = {};
      tell_directory();
    });
  }

  caf::behavior make_behavior() override {
    subscribe();
    return {
        [this](const Message<messages::ActorStarted>& message) {
          const auto role = message->getAddress().getRole();
          if (role == Role::SCHEDULER) subscribe();
          if (role == Role::GATEWAY) tell_directory();
        },
        [this](const Message<messages::ActorGivenUp>& message) {
          given_up_ = wire::decode(message->getError());
          scheduler_ = {};
          tell_directory();
        },
        [this](const Message<messages::ReplicaDescribed>& message) {
          described_ = message;
          tell_directory();
        },
        [this](const Message<messages::ReplicaLoad>& message) { on_load(wire::decode(*message)); },
        [this](const Message<messages::ChooseReplica>& message) { on_choose(*message); },
        [this](const Message<messages::PinPath>& message) { on_pin_path(*message); },
        [this](const Message<messages::Pinned>& message) { on_pinned(*message); },
    };
  }
  void on_exit() override {
    scheduler_ = {};
    pin_askers_.clear();
  }

 private:
  void subscribe() {
    const auto scheduler = registry().find(Role::SCHEDULER, replica_.value);
    if (!scheduler || scheduler == scheduler_) return;
    scheduler_ = scheduler;
    load_ = {};
    described_ = {};  // known again when it tells: before, its epoch is not in force
    monitor(scheduler_);
    tell(scheduler_, Message<messages::SubscribeReplica>::build([&](messages::SubscribeReplica::Builder subscribe) {
           registry().write_address(subscribe.initRouter(), Role::ROUTER);
         }));
  }

  void on_load(schedule::ReplicaLoad load) {
    if (sender() != scheduler_ || load.number <= load_.number) return;
    const bool state_changed = load.state != load_.state;
    load_ = load;
    chosen_since_load_ = 0;
    if (state_changed) tell_directory();
  }

  bool serving() const { return scheduler_ && described_ && load_.state != schedule::ReplicaState::kDraining; }

  /// Whole state each time. Before a replica has told what it is, there is nothing to say: the gateway answers "loading".
  void tell_directory() {
    if (described_) known_ = described_;
    if (!known_) return;
    tell(registry().find(Role::GATEWAY), Message<messages::DirectoryChanged>::build([&](messages::DirectoryChanged::Builder directory) {
           auto model = directory.initModels(1)[0];
           model.setName(known_->getModel());
           model.setContextTokens(known_->getContextTokens());
           model.initKeyDomains(1).setWithCaveats(0, known_->getKeyDomain());
           model.setReplicasServing(serving() ? 1 : 0);
         }));
  }

  void on_choose(messages::ChooseReplica::Reader choose) {
    if (auto error = refusal(choose)) {
      tell(sender(), Message<messages::ReplicaRefused>::build([&](messages::ReplicaRefused::Builder refused) {
             refused.setRequest(choose.getRequest());
             wire::write(*error, refused.initError());
           }));
      return;
    }
    ++chosen_since_load_;
    tell(sender(), Message<messages::ReplicaChosen>::build([&](messages::ReplicaChosen::Builder chosen) {
           chosen.setRequest(choose.getRequest());
           chosen.setReplica(replica_.value);
           registry().write_address(chosen.initScheduler(), Role::SCHEDULER, replica_.value);
           chosen.setKeyDomain(described_->getKeyDomain());
           chosen.setNumerics(described_->getNumerics());
         }));
  }

  /// With one replica there is nothing to gather; one that is not there, or dies meanwhile, leaves the asker to its own patience.
  void on_pin_path(messages::PinPath::Reader path) {
    const auto tier = registry().find(Role::DEVICE_TIER, replica_.value);
    if (!tier) return;
    pin_askers_.emplace_back(path.getPin(), sender());
    if (pin_askers_.size() > kMostPinAskers) pin_askers_.pop_front();
    tell(tier, Message<messages::Pin>::build([&](messages::Pin::Builder pin) {
           pin.setPin(path.getPin());
           pin.setHolder(kPinHolder);
           pin.setKeys(path.getChain().getKeys());
           pin.setTtlSeconds(path.getTtlSeconds());
           pin.setMeasureOnly(path.getMeasureOnly());
         }));
  }

  /// The tier answers those of one pin in order.
  void on_pinned(messages::Pinned::Reader pinned) {
    const auto asker = std::find_if(pin_askers_.begin(), pin_askers_.end(), [&](const auto& a) { return a.first == pinned.getPin(); });
    if (asker == pin_askers_.end()) return;
    tell(asker->second, Message<messages::PathPinned>::build([&](messages::PathPinned::Builder reply) {
           reply.setPin(pinned.getPin());
           reply.setUsage(pinned.getUsage());
           reply.setBytes(pinned.getBytes());
           if (pinned.hasError()) reply.setError(pinned.getError());
         }));
    pin_askers_.erase(asker);
  }

  std::optional<Error> refusal(messages::ChooseReplica::Reader choose) const {
    if (given_up_) return given_up_;
    if (known_ && wire::to_view(choose.getModel()) != wire::to_view(known_->getModel()))
      return make_error(ErrorClass::kNotFound, ErrorReason::kUnknownModel,
                        "The model '" + wire::to_string(choose.getModel()) + "' does not exist.", "model");
    if (!described_ || !scheduler_)
      return make_error(ErrorClass::kUnavailable, known_ ? ErrorReason::kGroupLost : ErrorReason::kLoading,
                        known_ ? "The engine is restarting; retry shortly." : "The model is still loading; retry shortly.", {}, {}, 1000);
    if (load_.state == schedule::ReplicaState::kDraining)
      return make_error(ErrorClass::kUnavailable, ErrorReason::kDraining, "The server is shutting down.", {}, {}, 1000);
    bool refused_before = false;
    for (auto replica : choose.getExcluded()) refused_before = refused_before || replica == replica_.value;
    const bool full = load_.waiting_requests + chosen_since_load_ >= described_->getMaxQueuedRequests() + kRunningSlack ||
                      load_.waiting_tokens >= described_->getMaxQueuedTokens();
    if (refused_before || full)
      return make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull, "The server is overloaded; retry later.", {}, {}, 1000);
    return std::nullopt;
  }

  /// Requests chosen since the last load may be running already; only the scheduler knows its bound exactly.
  static constexpr std::uint32_t kRunningSlack = 16;
  static constexpr std::size_t kMostPinAskers = 4096;
  /// One node, so one holder; the same over a restart, so that a pin can be ended by whoever has set it.
  static constexpr Incarnation kPinHolder = 1;

  ReplicaId replica_;
  caf::actor scheduler_;
  Message<messages::ReplicaDescribed> described_;  // by the present scheduler
  Message<messages::ReplicaDescribed> known_;      // the last one that any has given
  schedule::ReplicaLoad load_;
  std::uint32_t chosen_since_load_ = 0;
  std::optional<Error> given_up_;
  std::deque<std::pair<std::uint64_t, caf::actor>> pin_askers_;  // by pin, oldest first
};

}  // namespace

caf::actor spawn_router(caf::actor_system& system, RouterDependencies dependencies) {
  return system.spawn<RouterActor>(std::move(dependencies));
}

}  // namespace troupe::actors
