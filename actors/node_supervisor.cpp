#include "actors/node_supervisor.h"

#include "actors/actor_base.h"
#include "actors/replica_supervisor.h"
#include "actors/timers.h"
#include "actors/wire/common.h"
#include "messages/cache.capnp.h"
#include "messages/error_reasons.h"
#include "messages/supervision.capnp.h"
#include "runtime/base/metric_names.h"
#include "runtime/base/restart_window.h"

#include <algorithm>
#include <optional>

namespace troupe::actors {
namespace {

struct Child {
  ChildSpec spec;
  base::RestartWindow window;
  caf::actor actor;
};

class NodeSupervisor final : public ActorBase {
 public:
  NodeSupervisor(caf::actor_config& config, NodeSupervisorDependencies dependencies)
      : ActorBase(config, dependencies.context, "NodeSupervisor"), parts_(std::move(dependencies)) {
    set_down_handler([this](const caf::down_msg& down) { on_down(down); });
    set_exit_handler([this](const caf::exit_msg& exit) { on_end(exit.reason); });
  }

  caf::behavior make_behavior() override {
    for (auto& spec : parts_.children) {
      auto& child = children_.emplace_back(Child{std::move(spec), {parts_.limits.restarts, parts_.limits.window}, {}});
      start(child);
    }
    return {
        [this](const Message<messages::ActorStarted>& message) {
          gateway_ = registry().find(Role::GATEWAY);
          if (gateway_) monitor(gateway_);
          tell(registry().find(Role::ROUTER), message);
        },
        [this](const Message<messages::DrainNode>& message) { on_drain(message); },
        [this](const Message<messages::Drained>& message) { on_drained(message->getRole(), message->getCut()); },
        [this](const Message<messages::TierFlushed>& message) { on_flushed(*message); },
        [this](EndAtom, const std::string& reason) {
          if (parts_.on_fatal) parts_.on_fatal(kExitEngineLost, reason);
        },
    };
  }
  void on_exit() override {
    children_.clear();
    gateway_ = {};
  }

 private:
  enum class DrainStage { kNone, kGateway, kScheduler, kTiers, kDone };

  void start(Child& child) {
    child.actor = child.spec.start(system());
    monitor(child.actor);
    registry().put(child.spec.role, child.spec.index, child.actor);
    const auto message = Message<messages::ActorStarted>::build([&](messages::ActorStarted::Builder started) {
      registry().write_address(started.initAddress(), child.spec.role, child.spec.index);
      started.setRestarts(child.window.used());
    });
    for (auto role : child.spec.dependants) tell(registry().find(role, index_of(role)), message);
  }

  std::uint32_t index_of(Role role) const {
    const auto child = std::find_if(children_.begin(), children_.end(), [&](const Child& c) { return c.spec.role == role; });
    return child == children_.end() ? 0 : child->spec.index;
  }

  void on_down(const caf::down_msg& down) {
    if (gateway_ && gateway_.address() == down.source) {
      gateway_ = {};
      registry().put(Role::GATEWAY, 0, {});
      if (stage_ == DrainStage::kGateway) on_drained(Role::GATEWAY, 0);  // a dead one counts as drained
      return;
    }
    const auto child =
        std::find_if(children_.begin(), children_.end(), [&](const Child& c) { return c.actor && c.actor.address() == down.source; });
    if (child == children_.end()) return;
    const std::string role = role_name(child->spec.role);
    log(base::LogLevel::kError, "actor_died", "role=" + role + " reason=" + describe(down.reason));
    if (stage_ == DrainStage::kScheduler && child->spec.role == Role::SCHEDULER) {
      on_drained(Role::SCHEDULER, 0);
      return;
    }
    if (stage_ == DrainStage::kTiers && child->spec.role == Role::DEVICE_TIER) {
      end_drain();
      return;
    }
    if (!child->window.try_restart(now())) {
      give_up(*child);
      return;
    }
    context().metrics->counter(base::metric::kActorRestarts, "actors restarted by their supervisor", {{"role", role}}).increment();
    start(*child);
    if (child->spec.restarts_group) restart_group();
  }

  void restart_group() {
    tell(registry().find(Role::REPLICA_SUPERVISOR, parts_.replica),
         Message<messages::RestartGroup>::build([&](messages::RestartGroup::Builder restart) {
           restart.setReplica(parts_.replica);
           registry().write_address(restart.initScheduler(), Role::SCHEDULER, parts_.replica);
           registry().write_address(restart.initDeviceTier(), Role::DEVICE_TIER, parts_.replica);
         }));
  }

  void give_up(Child& child) {
    const std::string role = role_name(child.spec.role);
    log(base::LogLevel::kError, "actor_given_up", "role=" + role);
    child.actor = {};
    registry().put(child.spec.role, child.spec.index, {});
    const auto message = Message<messages::ActorGivenUp>::build([&](messages::ActorGivenUp::Builder given_up) {
      given_up.setRole(child.spec.role);
      given_up.setIndex(child.spec.index);
      wire::write(make_error(ErrorClass::kUnavailable, ErrorReason::kActorDied, "the engine failed too often", {}, role + " keeps dying"),
                  given_up.initError());
    });
    for (auto dependant : child.spec.dependants) tell(registry().find(dependant, index_of(dependant)), message);
    if (child.spec.vital) delayed_send(this, kFarewell, EndAtom::value, role + " keeps dying");
  }

  void on_drain(const Message<messages::DrainNode>& message) {
    grace_ = message;
    drain_until_ = now() + std::chrono::milliseconds(message->getGraceMs());
    switch (stage_) {
      case DrainStage::kNone:
        stage_ = gateway_ ? DrainStage::kGateway : DrainStage::kScheduler;
        tell_drain();
        break;
      case DrainStage::kGateway:
      case DrainStage::kScheduler: tell_drain(); break;  // a second one shortens the grace time
      case DrainStage::kTiers: end_drain(); break;
      case DrainStage::kDone: break;
    }
  }

  void tell_drain() {
    const auto scheduler = registry().find(Role::SCHEDULER, parts_.replica);
    if (stage_ == DrainStage::kScheduler && !scheduler)
      on_drained(Role::SCHEDULER, 0);
    else
      tell(stage_ == DrainStage::kGateway ? gateway_ : scheduler, grace_);
  }

  void on_drained(Role role, std::uint32_t cut) {
    if (role == Role::GATEWAY && stage_ == DrainStage::kGateway) {
      cut_ += cut;
      stage_ = DrainStage::kScheduler;
      tell_drain();
    } else if (role == Role::SCHEDULER && stage_ == DrainStage::kScheduler) {
      cut_ += cut;
      flush_tiers();
    }
  }

  /// Only what is on a disk outlives the process.
  void flush_tiers() {
    const auto tier = registry().find(Role::DEVICE_TIER, parts_.replica);
    if (!tier || !registry().find(Role::DISK_TIER, parts_.replica)) return end_drain();
    stage_ = DrainStage::kTiers;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(drain_until_ - now()).count();
    tell(tier, Message<messages::FlushTier>::build([&](messages::FlushTier::Builder flush) {
           flush.setGraceMs(static_cast<std::uint32_t>(std::max<std::int64_t>(left, 0)));
         }));
  }

  void on_flushed(messages::TierFlushed::Reader flushed) {
    if (stage_ != DrainStage::kTiers) return;
    log(base::LogLevel::kInfo, "tiers_flushed",
        "written=" + std::to_string(flushed.getBlocksWritten()) + " lost=" + std::to_string(flushed.getBlocksLost()));
    end_drain();
  }

  void end_drain() {
    stage_ = DrainStage::kDone;
    if (parts_.on_drained) parts_.on_drained(cut_);
  }

  void on_end(const caf::error& reason) {
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      if (child->actor) send_exit(child->actor, caf::exit_reason::user_shutdown);
    children_.clear();
    quit(reason);
  }

  static std::string role_name(Role role) {
    switch (role) {
      case Role::NODE_SUPERVISOR: return "node_supervisor";
      case Role::GATEWAY: return "gateway";
      case Role::SESSION_STORE: return "session_store";
      case Role::ROUTER: return "router";
      case Role::SCHEDULER: return "scheduler";
      case Role::DEVICE_TIER: return "device_tier";
      case Role::HOST_TIER: return "host_tier";
      case Role::DISK_TIER: return "disk_tier";
      case Role::SHARD: return "shard";
      case Role::REPLICA_SUPERVISOR: return "replica_supervisor";
      case Role::MEMBERSHIP: return "membership";
    }
    return "unknown";
  }

  NodeSupervisorDependencies parts_;
  std::vector<Child> children_;
  caf::actor gateway_;
  DrainStage stage_ = DrainStage::kNone;
  Message<messages::DrainNode> grace_;
  TimePoint drain_until_;
  std::uint32_t cut_ = 0;
};

}  // namespace

caf::actor spawn_node_supervisor(caf::actor_system& system, NodeSupervisorDependencies dependencies) {
  return system.spawn<NodeSupervisor>(std::move(dependencies));
}

}  // namespace troupe::actors
