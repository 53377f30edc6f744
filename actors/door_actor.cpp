#include "actors/door_actor.h"

#include "actors/actor_base.h"
#include "actors/handles.h"
#include "actors/wire/common.h"
#include "messages/error_reasons.h"
#include "messages/membership.capnp.h"

#include <algorithm>

namespace troupe::actors {
namespace {

class DoorActor final : public ActorBase {
 public:
  DoorActor(caf::actor_config& config, DoorDependencies dependencies)
      : ActorBase(config, dependencies.context, "Door"), parts_(std::move(dependencies)) {}

  caf::behavior make_behavior() override {
    return {[this](const Message<messages::Join>& join, const caf::actor& shard) { on_join(join, shard); }};
  }

 private:
  void on_join(const Message<messages::Join>& join, const caf::actor& shard) {
    const auto joiner = sender();
    if (!joiner || !shard) return;
    if (const auto status = check(*join); !status) return refuse(joiner, join, status.error());
    parts_.spec.ask_names(*this, joiner, [this, join, shard, joiner](const std::vector<std::string>& names) {
      const std::string name = wire::to_string(join->getName());
      if (std::find(names.begin(), names.end(), name) == names.end())
        return refuse(joiner, join, refusal("its certificate does not name " + name));
      let_in(joiner, *join, shard);
    });
  }

  static Error refusal(std::string why) { return make_error(ErrorClass::kForbidden, ErrorReason::kBadConfig, std::move(why)); }

  /// One rank of one replica a process.
  Status check(messages::Join::Reader join) const {
    if (join.getSchemaVersion() != messages::SCHEMA_VERSION)
      return refusal("it speaks version " + std::to_string(join.getSchemaVersion()) + " of the messages, not " +
                     std::to_string(messages::SCHEMA_VERSION));
    if (wire::to_view(join.getCluster()) != parts_.spec.cluster) return refusal("it belongs to another cluster");
    if (wire::decode(join.getConfigDigest()) != parts_.spec.digest) return refusal("it has another cluster file");
    const auto replicas = join.getReplicas();
    if (replicas.size() != 1 || replicas[0].getReplica() != parts_.replica || replicas[0].getRanks().size() != 1)
      return refusal("it does not offer one rank of this replica");
    const auto rank = replicas[0].getRanks()[0];
    if (rank >= parts_.spec.nodes.size() || wire::to_view(join.getName()) != parts_.spec.nodes[rank])
      return refusal("rank " + std::to_string(rank) + " is not this node's");
    return ok_status();
  }

  void refuse(const caf::actor& joiner, const Message<messages::Join>& join, const Error& error) {
    log(base::LogLevel::kWarning, "join_refused",
        "name=" + base::log_value(wire::to_view(join->getName())) + " reason=" + base::log_value(error.client_text));
    tell(joiner, Message<messages::JoinRefused>::build([&](messages::JoinRefused::Builder b) { wire::write(error, b.initError()); }));
  }

  void let_in(const caf::actor& joiner, messages::Join::Reader join, const caf::actor& shard) {
    const auto supervisor = registry().find(Role::REPLICA_SUPERVISOR, parts_.replica);
    if (!supervisor) return;  // it is being restarted; the joiner asks again
    const std::uint16_t rank = join.getReplicas()[0].getRanks()[0];
    send(supervisor, RankJoinedAtom::value, rank, join.getIncarnation(), shard);
    tell(joiner, Message<messages::JoinAccepted>::build([&](messages::JoinAccepted::Builder b) {
           b.setNode(rank + 2U);  // this one is 1
         }));
  }

  DoorDependencies parts_;
};

}  // namespace

caf::actor spawn_door(caf::actor_system& system, DoorDependencies dependencies) { return system.spawn<DoorActor>(std::move(dependencies)); }

}  // namespace troupe::actors
