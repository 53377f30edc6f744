#include "actors/actor_config.h"

#include "messages/admission.capnp.h"
#include "messages/cache.capnp.h"
#include "messages/caf_types.h"
#include "messages/membership.capnp.h"
#include "messages/moves.capnp.h"
#include "messages/plan.capnp.h"
#include "messages/request.capnp.h"
#include "messages/session_store.capnp.h"
#include "messages/shard_control.capnp.h"
#include "messages/supervision.capnp.h"

#include <caf/all.hpp>

namespace troupe::actors {
namespace {

template <class... Schemas>
void register_messages(caf::actor_system_config& config) {
  (config.add_message_type<Message<Schemas>>(Message<Schemas>::type_name()), ...);
}

/// Every message that may cross nodes. In one process nothing needs a name.
void register_all(caf::actor_system_config& config) {
  using namespace messages;
  register_messages<AdmitSequence, AppendPrompt, SequenceAdmitted, AdmissionRefused, AbortSequence, TokensGenerated, PromptScored,
                    ReplicaLoad, SubscribeReplica, ReplicaDescribed>(config);
  register_messages<ForwardPlan, ForwardResult, SequenceHistory, ResyncWanted, ResyncSequences>(config);
  register_messages<LoadShard, LoadProgress, ShardLoaded, EnterEpoch, ShardReady, InventoryReported, ReportInventory, LeaveEpoch, EpochLeft,
                    ShardFailed>(config);
  register_messages<MoveBlocks, MovesFinished>(config);
  register_messages<Pin, Pinned, ReadBlockEvents, BlockEvents, GroupLost, GroupReady, ActorStarted>(config);
  register_messages<Join, JoinAccepted, JoinRefused, Heartbeat, MembershipChanged, LeaveCluster>(config);
}

}  // namespace

std::size_t default_workers(std::size_t cores) { return cores < 4 ? 1 : 2; }

ActorConfig::ActorConfig(std::size_t workers) {
  register_all(*this);
  set("scheduler.policy", caf::atom("sharing"));
  set("scheduler.max-threads", workers);
}

ActorConfig::ActorConfig(Testing) {
  register_all(*this);
  set("scheduler.policy", caf::atom("testing"));
}

}  // namespace troupe::actors
