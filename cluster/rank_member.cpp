#include "cluster/rank_member.h"

#include "actors/timers.h"
#include "actors/wire/common.h"
#include "messages/caf_types.h"
#include "messages/membership.capnp.h"
#include "runtime/base/log.h"

#include <caf/all.hpp>

namespace troupe::cluster {
namespace {

using actors::RetryAtom;
constexpr std::chrono::milliseconds kRetry{300};

class RankMember final : public caf::event_based_actor {
 public:
  RankMember(caf::actor_config& config, RankOrder order, caf::actor link, caf::actor shard, std::function<void(const std::string&)> on_end)
      : event_based_actor(config), order_(std::move(order)), link_(std::move(link)), shard_(std::move(shard)), on_end_(std::move(on_end)) {
    set_down_handler([this](const caf::down_msg& down) {
      if (down.reason == caf::exit_reason::user_shutdown) return end({});
      end(down.source == shard_.address() ? "its shard has ended: " + caf::to_string(down.reason) : "the process that started it is gone");
    });
  }

  caf::behavior make_behavior() override {
    monitor(shard_);
    send(this, RetryAtom::value);
    return {
        [this](RetryAtom) { door_ ? ask() : connect(); },
        [this](const Message<messages::JoinAccepted>&) {
          accepted_ = true;
          base::log(base::LogLevel::kInfo, "joined", "rank=" + std::to_string(order_.rank));
        },
        [this](const Message<messages::JoinRefused>& refused) {
          end("it was refused: " + actors::wire::decode(refused->getError()).client_text);
        },
    };
  }

  void on_exit() override { door_ = shard_ = {}; }

 private:
  void connect() {
    request(link_, caf::infinite, caf::connect_atom::value, order_.door_host, order_.door_port)
        .then(
            [this](const caf::node_id&, const caf::strong_actor_ptr& door, const std::set<std::string>&) {
              door_ = caf::actor_cast<caf::actor>(door);
              if (!door_) return retry();
              monitor(door_);
              ask();
            },
            [this](const caf::error&) { retry(); });
  }

  void ask() {
    if (accepted_) return;
    send(door_, Message<messages::Join>::build([&](messages::Join::Builder join) {
           join.setCluster(actors::wire::to_text(order_.cluster));
           join.setSchemaVersion(messages::SCHEMA_VERSION);
           actors::wire::write(order_.digest, join.initConfigDigest());
           join.setName(actors::wire::to_text(order_.node));
           join.setIncarnation(order_.incarnation);
           auto place = join.initReplicas(1)[0];
           place.setReplica(order_.replica);
           place.initRanks(1).set(0, order_.rank);
         }),
         shard_);
    retry();
  }

  void retry() { delayed_send(this, kRetry, RetryAtom::value); }
  void end(const std::string& reason) {
    if (on_end_) std::exchange(on_end_, {})(reason);
  }

  const RankOrder order_;
  caf::actor link_;
  caf::actor shard_, door_;
  bool accepted_ = false;
  std::function<void(const std::string&)> on_end_;
};

}  // namespace

caf::actor spawn_rank_member(caf::actor_system& system, const RankOrder& order, const caf::actor& link, const caf::actor& shard,
                             std::function<void(const std::string&)> on_end) {
  return system.spawn<RankMember>(order, link, shard, std::move(on_end));
}

}  // namespace troupe::cluster
