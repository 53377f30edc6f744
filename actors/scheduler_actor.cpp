#include "actors/scheduler_actor.h"

#include "actors/actor_base.h"
#include "actors/request_table.h"
#include "actors/scheduler_metrics.h"
#include "actors/timers.h"
#include "actors/wire/admission.h"
#include "actors/wire/cache.h"
#include "actors/wire/common.h"
#include "actors/wire/moves.h"
#include "actors/wire/plan.h"
#include "messages/error_reasons.h"
#include "messages/shard_control.capnp.h"
#include "messages/supervision.capnp.h"

#include <map>
#include <optional>

namespace troupe::actors {
namespace {

class SchedulerActor final : public ActorBase {
 public:
  SchedulerActor(caf::actor_config& config, SchedulerDependencies dependencies)
      : ActorBase(config, std::move(dependencies.context), "Scheduler"),
        facts_(std::move(dependencies.facts)),
        context_tokens_(dependencies.options.context_tokens),
        limits_{dependencies.options.max_queued_requests, dependencies.options.max_queued_tokens},
        metrics_(*context().metrics, dependencies.options),
        scheduler_(std::move(dependencies.options)) {
    set_down_handler([this](const caf::down_msg& down) { on_down(down.source); });
  }

  caf::behavior make_behavior() override {
    return {
        [this](const Message<messages::ForwardResult>& message) {
          metrics_.step_took(message->getComputeMicros() / 1e6);
          scheduler_.on_result(wire::decode(*message), now());
          flush();
        },
        [this](const Message<messages::AdmitSequence>& message) { on_admit(*message); },
        [this](const Message<messages::AppendPrompt>& message) { on_page(*message); },
        [this](const Message<messages::AbortSequence>& message) { on_abort(wire::decode(*message)); },
        [this](const Message<messages::PrefixMatched>& message) {
          scheduler_.on_prefix_matched(wire::decode(*message), now());
          flush();
        },
        [this](const Message<messages::MovesFinished>& message) {
          scheduler_.on_moves_finished(wire::decode(*message), now());
          flush();
        },
        [this](const Message<messages::BlocksLeased>& message) {
          scheduler_.on_blocks_leased(wire::decode(*message), now());
          flush();
        },
        [this](const Message<messages::SubscribeReplica>&) { on_subscribe(sender()); },
        [this](const Message<messages::GroupReady>& message) { on_group_ready(*message); },
        [this](const Message<messages::GroupLost>& message) { on_group_lost(*message); },
        [this](const Message<messages::DrainNode>& message) { on_drain(message->getGraceMs()); },
        [this](WakeAtom) {
          armed_.reset();
          scheduler_.on_time(now());
          flush();
        },
        [this](GraceAtom) { end_drain(static_cast<std::uint32_t>(requests_.size())); },
    };
  }

  void on_exit() override {
    requests_ = {};
    shards_.clear();
    tier_ = router_ = drain_asker_ = {};
  }

 private:
  void on_admit(messages::AdmitSequence::Reader message) {
    auto admit = wire::decode(message);
    if (requests_.add(admit.request, admit.attempt, sender(), admit.first_choice, admit.choices)) monitor(sender());
    if (admit.tokens.size() < message.getPromptTokens()) {
      pages_[{admit.request, admit.first_choice}] = {std::move(admit), message.getPromptTokens()};
      return;
    }
    scheduler_.admit(std::move(admit), now());
    flush();
  }

  void on_page(messages::AppendPrompt::Reader page) {
    const auto found = pages_.find({RequestId{page.getRequest()}, page.getFirstChoice()});
    if (found == pages_.end() || found->second.admit.attempt != page.getAttempt()) return;
    auto& [admit, wanted] = found->second;
    const bool fits = wire::append_page(admit, page) && admit.tokens.size() <= wanted;
    if (fits && admit.tokens.size() < wanted) return;
    if (fits)
      scheduler_.admit(std::move(admit), now());
    else
      refuse({admit.request, admit.attempt, admit.first_choice,
              make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, "the prompt did not arrive whole")});
    pages_.erase(found);
    flush();
  }

  void on_abort(const schedule::AbortSequence& abort) {
    forget_pages(abort.request);
    const auto session = requests_.session(abort.request);
    bool closed = abort.choices.empty() && requests_.close_all(abort.request);
    for (auto choice : abort.choices) closed = requests_.close(abort.request, choice) || closed;
    if (closed) demonitor(session);
    scheduler_.abort(abort, now());
    flush();
  }

  void on_down(const caf::actor_addr& dead) {
    if (router_ && router_.address() == dead) router_ = {};
    for (auto [request, attempt] : requests_.requests_of(dead)) {
      forget_pages(request);
      requests_.close_all(request);
      scheduler_.abort({request, attempt, {}}, now());
    }
    flush();
  }

  void forget_pages(RequestId request) {
    std::erase_if(pages_, [&](const auto& entry) { return entry.first.first == request; });
  }

  void on_subscribe(caf::actor router) {
    if (!router) return;
    monitor(router);
    router_ = std::move(router);
    if (epoch_) describe();
  }

  void on_group_ready(messages::GroupReady::Reader group) {
    // GroupLost travels with high priority: it may have overtaken the GroupReady of the same epoch.
    if (group.getEpoch() <= std::max(epoch_, lost_).value) return;
    epoch_ = GroupEpoch{group.getEpoch()};
    numerics_ = wire::decode(group.getNumerics());
    shards_.clear();
    for (auto address : group.getShards()) shards_.push_back(registry().resolve(address));
    tier_ = registry().find(Role::DEVICE_TIER, facts_.replica.value);
    const std::uint32_t context_tokens =
        context_tokens_ == 0 ? group.getContextTokens() : std::min(context_tokens_, group.getContextTokens());
    described_context_ = context_tokens;
    load_.state = draining_ ? schedule::ReplicaState::kDraining : schedule::ReplicaState::kServing;
    describe();
    schedule::GroupReady ready;
    ready.epoch = epoch_;
    ready.device_blocks = group.getDeviceBlocks();
    ready.context_tokens = context_tokens;
    ready.ranks = static_cast<std::uint32_t>(shards_.size());
    ready.block_bytes = group.getBlockBytes();
    ready.disk_read_us = group.getDiskReadMicros();
    ready.stages = group.getStages();
    const auto speed = group.getSpeed();
    ready.speed = {speed.getComputeNanos() / 1000, speed.getWireNanos() / 1000, speed.getReduceMicros(), speed.getReduces(),
                   speed.getRowHidden()};
    scheduler_.on_group_ready(ready, now());
    flush();
  }

  void on_group_lost(messages::GroupLost::Reader lost) {
    shards_.clear();
    lost_ = GroupEpoch{lost.getEpoch()};
    load_.state = lost.getFinal() ? schedule::ReplicaState::kDraining : schedule::ReplicaState::kRestarting;
    scheduler_.on_group_lost(GroupEpoch{lost.getEpoch()}, lost.getFinal(), wire::decode(lost.getError()), now());
    flush();
    tell_load(load_);
  }

  void on_drain(std::uint32_t grace_ms) {
    draining_ = true;
    drain_asker_ = sender();
    load_.state = schedule::ReplicaState::kDraining;
    tell_load(load_);
    scheduler_.drain(now());
    delayed_send(this, std::chrono::milliseconds(grace_ms), GraceAtom::value);
    flush();
  }

  void end_drain(std::uint32_t cut) {
    if (!drain_asker_) return;
    tell(drain_asker_, Message<messages::Drained>::build([&](messages::Drained::Builder drained) {
           drained.setRole(Role::SCHEDULER);
           drained.setIndex(facts_.replica.value);
           drained.setCut(cut);
         }));
    drain_asker_ = {};
  }

  void describe() {
    tell(router_, Message<messages::ReplicaDescribed>::build([&](messages::ReplicaDescribed::Builder described) {
           described.setReplica(facts_.replica.value);
           described.setModel(wire::to_text(facts_.model_name));
           wire::write(facts_.model_content, described.initModelContent());
           wire::write(numerics_, described.initNumerics());
           wire::write(facts_.key_domain(numerics_), described.initKeyDomain());
           wire::write(facts_.template_id, described.initTemplateId());
           described.setContextTokens(described_context_);
           described.setMaxQueuedRequests(limits_.requests);
           described.setMaxQueuedTokens(limits_.tokens);
           registry().write_address(described.initDeviceTier(), Role::DEVICE_TIER, facts_.replica.value);
         }));
    tell_load(load_);
  }

  void tell_load(schedule::ReplicaLoad load) {
    load.replica = facts_.replica;
    load.epoch = epoch_;
    load.number = ++load_number_;
    load_ = load;
    tell(router_, wire::encode(load));
  }

  /// A refusal answers for all choices of its admission.
  void refuse(const schedule::AdmissionRefused& refused) {
    const auto session = requests_.session(refused.request);
    tell(session, wire::encode(refused));
    if (requests_.close_admission(refused.request, refused.first_choice)) demonitor(session);
  }

  /// Sends what the last call left, plans before deliveries, and to the tier what there is before what is asked for.
  void flush() {
    auto out = scheduler_.take_output();
    for (const auto& plan : out.plans) {
      const auto message = wire::encode(plan);
      for (const auto& shard : shards_) tell(shard, message);
    }
    for (const auto& moves : out.moves) {
      const auto message = wire::encode(moves);
      for (const auto& shard : shards_) tell(shard, message);
    }
    for (const auto& publish : out.publishes) tell(tier_, wire::encode(publish));
    for (const auto& load : out.finished_loads) tell(tier_, wire::encode(load));
    for (const auto& release : out.releases) tell(tier_, wire::encode(release));
    for (const auto& match : out.matches) tell(tier_, wire::encode(match));
    for (const auto& lease : out.leases) tell(tier_, wire::encode(lease));
    for (const auto& admitted : out.admitted) tell(requests_.session(admitted.request), wire::encode(admitted));
    for (const auto& refused : out.refused) refuse(refused);
    for (const auto& scored : out.scored) tell(requests_.session(scored.request), wire::encode(scored));
    for (const auto& tokens : out.tokens) {
      const auto session = requests_.session(tokens.request);
      tell(session, wire::encode(tokens));
      if (tokens.finish != schedule::Finish::kRunning && requests_.close(tokens.request, tokens.choice)) demonitor(session);
    }
    for (auto& load : out.loads) {
      if (load_.state != schedule::ReplicaState::kServing) load.state = load_.state;
      tell_load(load);
    }
    arm(out.wake_at);
    metrics_.report(scheduler_.stats());
    if (drain_asker_ && scheduler_.idle()) end_drain(0);
  }

  /// One timer at most is of use: the earliest.
  void arm(std::optional<TimePoint> wake_at) {
    if (!wake_at || (armed_ && *armed_ <= *wake_at)) return;
    armed_ = *wake_at;
    delayed_send(this, std::max(*wake_at - now(), TimePoint::duration::zero()), WakeAtom::value);
  }

  struct Paged {
    schedule::AdmitSequence admit;
    std::uint32_t wanted = 0;
  };
  struct Limits {
    std::uint32_t requests;
    std::uint64_t tokens;
  };

  ReplicaFacts facts_;
  std::uint32_t context_tokens_;
  Limits limits_;
  SchedulerMetrics metrics_;
  schedule::Scheduler scheduler_;
  GroupEpoch epoch_, lost_;
  Hash128 numerics_;
  std::uint32_t described_context_ = 0;
  std::vector<caf::actor> shards_;
  caf::actor tier_, router_, drain_asker_;
  RequestTable requests_;
  std::map<std::pair<RequestId, std::uint16_t>, Paged> pages_;
  schedule::ReplicaLoad load_;
  std::uint64_t load_number_ = 0;
  bool draining_ = false;
  std::optional<TimePoint> armed_;
};

}  // namespace

caf::actor spawn_scheduler(caf::actor_system& system, SchedulerDependencies dependencies) {
  return system.spawn<SchedulerActor>(std::move(dependencies));
}

}  // namespace troupe::actors
