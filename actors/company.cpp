#include "actors/company.h"

#include "actors/actor_base.h"
#include "actors/compute.h"
#include "actors/device_tier_actor.h"
#include "actors/handles.h"
#include "actors/lower_tier_actor.h"
#include "actors/node_supervisor.h"
#include "actors/replica_supervisor.h"
#include "actors/request_session_actor.h"
#include "actors/router_actor.h"
#include "actors/scheduler_actor.h"
#include "actors/session_metrics.h"
#include "actors/session_store_actor.h"
#include "actors/shard_actor.h"
#include "messages/supervision.capnp.h"
#include "runtime/base/hash.h"

#include <atomic>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

/// Not vital: without it, what would be there is computed.
ChildSpec lower_tier_child(const std::shared_ptr<const ActorContext>& context, Tier tier, std::uint32_t replica) {
  const auto start = [context, tier, replica, successor = std::make_shared<std::atomic<bool>>(false)](caf::actor_system& s) {
    return spawn_lower_tier(s, {context, tier, replica, successor->exchange(true)});
  };
  std::vector<Role> above{Role::DEVICE_TIER};
  if (tier == Tier::kDisk) above.push_back(Role::HOST_TIER);
  return {.role = tier == Tier::kHost ? Role::HOST_TIER : Role::DISK_TIER,
          .index = replica,
          .start = start,
          .dependants = std::move(above),
          .vital = false};
}

}  // namespace

struct Company::State {
  explicit State(caf::actor_system& s) : system(s) {}
  caf::actor_system& system;
  std::shared_ptr<ActorContext> context = std::make_shared<ActorContext>();
  std::uint32_t replica = 0;
  std::shared_ptr<Compute> compute;  // of the rank in this process; null where ranks are processes
  caf::actor door;
  std::shared_ptr<RequestSessionDependencies> session = std::make_shared<RequestSessionDependencies>();
  caf::actor node_supervisor;
};

Company::Company(caf::actor_system& system, CompanySpec spec) : state_(std::make_shared<State>(system)) {
  TROUPE_CHECK(spec.metrics && spec.replica.tokenizer && spec.replica.chat_template);
  TROUPE_CHECK(spec.replica.start_rank || (spec.replica.make_engine && spec.replica.shape.ranks() == 1));
  auto& replica = spec.replica;
  auto context = state_->context;
  context->registry = std::make_shared<ActorRegistry>(spec.node, random_incarnation());
  context->metrics = spec.metrics;
  context->tap = spec.tap;
  state_->replica = replica.replica.value;
  if (!replica.start_rank) state_->compute = spec.compute ? spec.compute : std::make_shared<ComputeThread>();

  if (replica.scheduler.eos.empty()) replica.scheduler.eos = replica.tokenizer->end_of_generation();
  replica.scheduler.replica = replica.replica;
  const ReplicaFacts facts{replica.replica, replica.model_name, replica.model_content,
                           base::Hasher().add(replica.chat_template->id()).add(replica.tokenizer->id()).finish()};

  auto& session = *state_->session;
  session.context = context;
  session.facts = facts;
  session.tokenizer = replica.tokenizer;
  session.chat_template = replica.chat_template;
  session.metrics = std::make_shared<SessionMetrics>(spec.metrics);
  session.context_tokens = replica.scheduler.context_tokens;
  session.retry_budget = spec.retry_budget;

  ReplicaSupervisorDependencies supervisor;
  supervisor.context = context;
  supervisor.facts = facts;
  supervisor.shape = replica.shape;
  supervisor.shard = replica.shard;
  supervisor.interfaces = replica.interfaces;
  supervisor.codec = replica.codec;
  supervisor.start_rank = replica.start_rank;
  supervisor.join_timeout = replica.join_timeout;
  supervisor.watchdog = replica.watchdog;
  supervisor.epochs = replica.epochs;
  supervisor.last_epoch = std::make_shared<std::atomic<std::uint32_t>>(0);
  supervisor.on_load_progress = spec.on_load_progress;
  supervisor.on_fatal = spec.on_fatal;
  supervisor.on_ready = spec.on_ready;
  if (!replica.start_rank)
    supervisor.start_shard = [context, compute = state_->compute, make_engine = replica.make_engine,
                              known = replica.shard](caf::actor_system& s) {
      const auto complete = [known](exec::ShardSpec& shard) {
        shard.known_content = known.known_content;
        shard.cache_in_background = known.cache_in_background;
      };
      return spawn_shard(s, {context, compute, make_engine, complete});
    };

  NodeSupervisorDependencies node;
  node.context = context;
  node.limits = spec.actors;
  node.replica = replica.replica.value;
  node.on_fatal = spec.on_fatal;
  node.on_drained = spec.on_drained;
  node.children = {
      {.role = Role::SESSION_STORE,
       .start =
           [context, ttl = spec.session_ttl, tokens = spec.max_stored_tokens, log = spec.response_log](caf::actor_system& s) {
             return spawn_session_store(s, {context, ttl, tokens, log});
           },
       .dependants = {},
       .vital = false},
      {.role = Role::ROUTER,
       .start =
           [context, id = replica.replica](caf::actor_system& s) {
             return spawn_router(s, {context, id});
           },
       .dependants = {}},
      {.role = Role::DEVICE_TIER,
       .index = replica.replica.value,
       .start =
           [context, id = replica.replica.value](caf::actor_system& s) {
             return spawn_device_tier(s, {context, id});
           },
       .dependants = {Role::ROUTER},
       .restarts_group = true},
      {.role = Role::SCHEDULER,
       .index = replica.replica.value,
       .start =
           [context, facts, options = replica.scheduler](caf::actor_system& s) {
             return spawn_scheduler(s, {context, facts, options});
           },
       .dependants = {Role::ROUTER},
       .restarts_group = true},
      {.role = Role::REPLICA_SUPERVISOR,
       .index = replica.replica.value,
       .start = [supervisor](caf::actor_system& s) { return spawn_replica_supervisor(s, supervisor); },
       .dependants = {Role::ROUTER}},
  };
  // Before those that ask them.
  if (replica.shard.host_bytes > 0) node.children.insert(node.children.begin(), lower_tier_child(context, Tier::kHost, node.replica));
  if (replica.shard.disk_bytes > 0) node.children.insert(node.children.begin(), lower_tier_child(context, Tier::kDisk, node.replica));
  state_->node_supervisor = spawn_node_supervisor(system, std::move(node));
  context->registry->put(Role::NODE_SUPERVISOR, 0, state_->node_supervisor);
}

Company::~Company() {
  caf::anon_send_exit(state_->node_supervisor, caf::exit_reason::user_shutdown);
  state_->node_supervisor = {};
  // A rank's process ends with the door, and to a supervisor that still lives it would be lost.
  if (const auto supervisor = find(Role::REPLICA_SUPERVISOR, state_->replica))
    caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  if (state_->door) caf::anon_send_exit(state_->door, caf::exit_reason::user_shutdown);
  state_->door = {};
  state_->context->registry->clear();
}

SessionFactory Company::session_factory() const {
  return [&system = state_->system, session = std::shared_ptr<const RequestSessionDependencies>(state_->session)](
             const caf::actor& gateway) { return spawn_request_session(system, session, gateway); };
}

void Company::attach_gateway(const caf::actor& gateway) {
  auto& registry = *state_->context->registry;
  registry.put(Role::GATEWAY, 0, gateway);
  tell_from(*state_->context, "Company", state_->node_supervisor,
            Message<messages::ActorStarted>::build(
                [&](messages::ActorStarted::Builder started) { registry.write_address(started.initAddress(), Role::GATEWAY); }));
}

void Company::drain(std::chrono::milliseconds grace) {
  tell_from(*state_->context, "Company", state_->node_supervisor,
            Message<messages::DrainNode>::build(
                [&](messages::DrainNode::Builder drain) { drain.setGraceMs(static_cast<std::uint32_t>(grace.count())); }));
}

caf::actor Company::open_door(DoorSpec spec) {
  state_->door = spawn_door(state_->system, {state_->context, state_->replica, std::move(spec)});
  return state_->door;
}

void Company::tell_rank_ended(std::uint16_t rank, Incarnation incarnation, const std::string& how) {
  const auto supervisor = find(Role::REPLICA_SUPERVISOR, state_->replica);
  if (supervisor) caf::anon_send(supervisor, RankEndedAtom::value, rank, incarnation, how);
}

caf::actor Company::find(Role role, std::uint32_t index) const { return state_->context->registry->find(role, index); }

}  // namespace troupe::actors
