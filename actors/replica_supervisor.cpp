#include "actors/replica_supervisor.h"

#include "actors/actor_base.h"
#include "actors/group_facts.h"
#include "actors/handles.h"
#include "actors/timers.h"
#include "actors/wire/common.h"
#include "actors/wire/shard_control.h"
#include "messages/error_reasons.h"
#include "messages/shard_control.capnp.h"
#include "messages/supervision.capnp.h"
#include "runtime/base/metric_names.h"
#include "runtime/base/restart_window.h"

#include <algorithm>
#include <unistd.h>
#include <vector>

namespace troupe::actors {
namespace {

enum class RankState { kStarting, kLoading, kOut, kEntering, kIn, kLeaving };
struct Rank {
  caf::actor shard;  // null while its process is starting
  RankState state = RankState::kStarting;
  Incarnation incarnation = 0;  // of its process
  bool heard = false;           // a sign of life since LoadShard
  unsigned starts = 0;          // in a row that did not lead into an epoch
};

constexpr unsigned kMostStarts = 6;
constexpr std::chrono::milliseconds kFirstDelay{250}, kLongestDelay{4000};
constexpr std::chrono::milliseconds kLongestPause{1000};  // between two epochs; RestartLimits allow that for ever
/// Before the n-th start in a row.
std::chrono::milliseconds delay_of(unsigned start) {
  return start <= 1 ? std::chrono::milliseconds{0} : std::min(kFirstDelay * (1U << (start - 2)), kLongestDelay);
}

class ReplicaSupervisor final : public ActorBase {
 public:
  ReplicaSupervisor(caf::actor_config& config, ReplicaSupervisorDependencies dependencies)
      : ActorBase(config, dependencies.context, "ReplicaSupervisor"),
        parts_(std::move(dependencies)),
        facts_(parts_.shape, parts_.codec),
        epoch_{parts_.last_epoch->load()},
        window_(parts_.epochs.restarts, parts_.epochs.window),
        epoch_gauge_(context().metrics->gauge(base::metric::kEpoch, "present group epoch")),
        restarts_(context().metrics->counter(base::metric::kEpochRestarts, "group epochs that were lost")) {
    set_down_handler([this](const caf::down_msg& down) { on_down(down); });
  }

  caf::behavior make_behavior() override {
    // A predecessor's epoch may still be in force at scheduler and tier.
    if (epoch_) tell_lost(lost("the replica's supervisor was restarted"), false);
    ranks_.resize(parts_.shape.ranks());
    for (std::uint16_t rank = 0; rank < ranks_.size(); ++rank) start(rank, {});
    return {
        [this](RankJoinedAtom, std::uint16_t rank, Incarnation incarnation, const caf::actor& shard) {
          on_joined(rank, incarnation, shard);
        },
        [this](RankEndedAtom, std::uint16_t rank, Incarnation incarnation, const std::string& how) { on_ended(rank, incarnation, how); },
        [this](StartAtom, std::uint16_t rank, Incarnation incarnation) { on_start(rank, incarnation); },
        [this](LateAtom, std::uint16_t rank, Incarnation incarnation) {
          if (rank_of(rank, incarnation) && ranks_[rank].state == RankState::kStarting)
            on_ended(rank, incarnation, "it has not joined in time");
        },
        [this](const Message<messages::LoadProgress>& message) { on_progress(*message); },
        [this](const Message<messages::ShardLoaded>& message) { on_loaded(*message); },
        [this](const Message<messages::ShardReady>& message) { on_ready(*message); },
        [this](const Message<messages::EpochLeft>& message) { on_left(*message); },
        [this](const Message<messages::ShardFailed>& message) { on_failed(*message); },
        [this](const Message<messages::RestartGroup>&) {
          if (alive()) lose(lost("scheduler or cache tier was restarted"));
        },
        [this](WatchAtom, std::uint32_t epoch) { on_overdue(GroupEpoch{epoch}); },
        [this](RetryAtom, std::uint32_t epoch) {
          if (epoch == epoch_.value && all(RankState::kOut)) enter();
        },
        [this](ReplyAtom, std::uint16_t rank, caf::actor_id shard) { on_silence(rank, shard); },
        [this](EndAtom, int exit_code, const std::string& reason) {
          if (parts_.on_fatal) parts_.on_fatal(exit_code, reason);
        },
    };
  }

  void on_exit() override {
    for (auto& rank : ranks_)
      if (rank.shard) send_exit(rank.shard, caf::exit_reason::user_shutdown);
    ranks_.clear();
  }

 private:
  static Error lost(std::string detail) {
    return make_error(ErrorClass::kGroupLost, ErrorReason::kGroupLost, "the engine had to restart", {}, std::move(detail), 1000);
  }
  bool all(RankState state) const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.state == state; });
  }
  /// An epoch is in force, or is being entered.
  bool alive() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.state == RankState::kIn || rank.state == RankState::kEntering; });
  }
  /// Of this replica; null where nobody plays the role.
  caf::actor find(Role role) const { return registry().find(role, parts_.facts.replica.value); }
  bool in_processes() const { return !parts_.start_shard; }
  /// The process that is meant lives, as far as we know.
  bool rank_of(std::uint16_t rank, Incarnation incarnation) const {
    return rank < ranks_.size() && ranks_[rank].incarnation == incarnation && !final_;
  }

  /// Anew, whatever was; `last_end`: of the one before.
  void start(std::uint16_t index, const std::string& last_end) {
    auto& rank = ranks_[index];
    rank = {{}, RankState::kStarting, random_incarnation(), false, rank.starts + 1};
    if (!in_processes()) return load(index, parts_.start_shard(system()));
    if (rank.starts > kMostStarts) return end(lost("rank " + std::to_string(index) + " does not stay alive: " + last_end), kExitEngineLost);
    delayed_send(this, delay_of(rank.starts), StartAtom::value, index, rank.incarnation);
  }

  void on_start(std::uint16_t index, Incarnation incarnation) {
    if (!rank_of(index, incarnation)) return;
    parts_.start_rank(index, incarnation);
    delayed_send(this, parts_.join_timeout, LateAtom::value, index, incarnation);
  }

  void on_joined(std::uint16_t index, Incarnation incarnation, const caf::actor& shard) {
    if (!rank_of(index, incarnation) || ranks_[index].state != RankState::kStarting) return;
    log(base::LogLevel::kInfo, "rank_joined", "rank=" + std::to_string(index));
    load(index, shard);
  }

  void load(std::uint16_t index, const caf::actor& shard) {
    auto& rank = ranks_[index];
    rank.shard = shard;
    rank.state = RankState::kLoading;
    monitor(rank.shard);
    registry().put(Role::SHARD, index, rank.shard);
    wire::LoadOrder order{parts_.facts.replica.value, parts_.facts.model_content, parts_.watchdog, parts_.shard};
    order.shard.place = {parts_.shape, index};
    if (index < parts_.interfaces.size()) order.shard.transport.interface = parts_.interfaces[index];
    tell(rank.shard, wire::encode(order));
    if (parts_.watchdog.count() > 0) delayed_send(this, 2 * parts_.watchdog, ReplyAtom::value, index, rank.shard.id());
  }

  void on_progress(messages::LoadProgress::Reader progress) {
    if (progress.getRank() >= ranks_.size()) return;
    ranks_[progress.getRank()].heard = true;
    if (progress.getRank() == 0 && parts_.on_load_progress) parts_.on_load_progress(progress.getDoneBytes(), progress.getTotalBytes());
  }

  void on_loaded(messages::ShardLoaded::Reader loaded) {
    if (loaded.getRank() >= ranks_.size() || ranks_[loaded.getRank()].state != RankState::kLoading) return;
    auto& rank = ranks_[loaded.getRank()];
    rank.heard = true;
    rank.state = RankState::kOut;
    facts_.loaded(loaded.getRank(), wire::decode(loaded), wire::to_bytes(loaded.getDataAddress()));
    enter_soon();
  }

  /// Once all are out of the last epoch. Where ranks met in vain (their network may be down), later from time to time.
  void enter_soon() {
    if (!all(RankState::kOut)) return;
    const auto delay = std::min(delay_of(vain_entries_), kLongestPause);
    if (delay.count() == 0) return enter();
    delayed_send(this, delay, RetryAtom::value, epoch_.value);
  }

  void enter() {
    if (final_) return;
    ++vain_entries_;  // until all are in
    epoch_ = GroupEpoch{epoch_.value + 1};
    parts_.last_epoch->store(epoch_.value);
    std::string token(16, '\0');
    TROUPE_CHECK(::getentropy(token.data(), token.size()) == 0);
    const auto message = Message<messages::EnterEpoch>::build([&](messages::EnterEpoch::Builder b) {
      b.setEpoch(epoch_.value);
      b.setToken(wire::to_data(token));
      registry().write_address(b.initScheduler(), Role::SCHEDULER, parts_.facts.replica.value);
      facts_.write(b);
    });
    for (auto& rank : ranks_) {
      rank.state = RankState::kEntering;
      if (in_processes()) introduce(rank.shard);
      tell(rank.shard, message);
    }
  }

  /// Whom a shard of another process will talk to on its own account.
  void introduce(const caf::actor& shard) {
    for (const Role role : {Role::SCHEDULER, Role::HOST_TIER, Role::DISK_TIER}) {
      const auto actor = find(role);
      if (!actor) continue;
      send(shard, IntroduceAtom::value, Message<messages::ActorStarted>::build([&](messages::ActorStarted::Builder b) {
             registry().write_address(b.initAddress(), role, parts_.facts.replica.value);
           }),
           actor);
    }
  }

  void on_ready(messages::ShardReady::Reader message) {
    const auto readiness = wire::decode(message);
    if (readiness.epoch != epoch_ || readiness.rank >= ranks_.size()) return;
    auto& rank = ranks_[readiness.rank];
    if (rank.state != RankState::kEntering) return;
    rank.state = RankState::kIn;
    rank.starts = 0;
    facts_.ready(readiness);
    if (!all(RankState::kIn)) return;
    if (const auto status = facts_.agree(); !status) {
      leave();
      return end(status.error(), kExitLoadFailed);
    }
    vain_entries_ = 0;
    epoch_gauge_.set(epoch_.value);
    const auto group = Message<messages::GroupReady>::build([&](messages::GroupReady::Builder b) {
      b.setReplica(parts_.facts.replica.value);
      b.setEpoch(epoch_.value);
      auto shards = b.initShards(static_cast<unsigned>(ranks_.size()));
      for (unsigned i = 0; i < shards.size(); ++i) registry().write_address(shards[i], Role::SHARD, i);
      facts_.write(b);
    });
    // From below: whoever is asked has heard of the epoch before.
    for (const Role role : {Role::DISK_TIER, Role::HOST_TIER, Role::DEVICE_TIER, Role::SCHEDULER}) tell(find(role), group);
    if (parts_.on_ready) std::exchange(parts_.on_ready, {})(facts_.of_group());
  }

  void on_left(messages::EpochLeft::Reader left) {
    if (left.getEpoch() != epoch_.value || left.getRank() >= ranks_.size()) return;
    auto& rank = ranks_[left.getRank()];
    if (rank.state != RankState::kLeaving) return;
    rank.state = RankState::kOut;
    facts_.left(left.getRank(), wire::to_bytes(left.getDataAddress()));
    enter_soon();
  }

  void on_failed(messages::ShardFailed::Reader failed) {
    const auto error = wire::decode(failed.getError());
    if (failed.getEpoch() == 0 && in_processes() && facts_.has_agreed() && failed.getRank() < ranks_.size()) {
      // It could be loaded before. What has gone since (its network, memory) may come back.
      if (ranks_[failed.getRank()].state == RankState::kLoading) lose_rank(failed.getRank(), "load failed: " + error.client_text);
    } else if (failed.getEpoch() == 0) {
      // A model that cannot be loaded will not load the next time either. The fatal callback tells the user; one line is enough.
      log(base::LogLevel::kInfo, "load_failed", "reason=" + std::string(reason_name(error.reason)));
      end(error, kExitLoadFailed);
    } else if (failed.getEpoch() == epoch_.value && alive()) {
      lose(error);
    }
  }

  void on_down(const caf::down_msg& down) {
    const auto dead =
        std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.shard && rank.shard.address() == down.source; });
    if (dead != ranks_.end()) lose_rank(static_cast<std::uint16_t>(dead - ranks_.begin()), describe(down.reason));
  }

  /// Of a process: noticed by who started it, mostly before the link notices.
  void on_ended(std::uint16_t index, Incarnation incarnation, const std::string& how) {
    if (rank_of(index, incarnation)) lose_rank(index, how);
  }

  void lose_rank(std::uint16_t index, const std::string& how) {
    if (final_) return;
    log(base::LogLevel::kError, "shard_died", "rank=" + std::to_string(index) + " reason=" + base::log_value(how));
    const bool was_alive = alive();
    ranks_[index].state = RankState::kStarting;  // no longer one of the survivors
    if (was_alive)
      lose(lost("a shard died"));
    else if (!in_processes() && !window_.try_restart(now()))
      end(lost("shards die while they load"), kExitEngineLost);
    if (!final_) start(index, how);
  }

  /// Ends the epoch in force: scheduler and tier first, then the survivors.
  void lose(const Error& error) {
    restarts_.increment();
    log(base::LogLevel::kWarning, "epoch_lost",
        "epoch=" + std::to_string(epoch_.value) + " reason=" + std::string(reason_name(error.reason)) + " detail=\"" +
            error.operator_detail + "\"");
    if (!window_.try_restart(now())) {
      leave();
      end(error, kExitEngineLost);
      return;
    }
    tell_lost(error, false);
    leave();
  }

  void leave() {
    const auto message = Message<messages::LeaveEpoch>::build([&](messages::LeaveEpoch::Builder b) { b.setEpoch(epoch_.value); });
    for (auto& rank : ranks_) {
      if (rank.state != RankState::kIn && rank.state != RankState::kEntering) continue;
      rank.state = RankState::kLeaving;
      tell_first(rank.shard, message);
    }
    if (parts_.watchdog.count() > 0) delayed_send(this, parts_.watchdog, WatchAtom::value, epoch_.value);
  }

  void tell_lost(const Error& error, bool final) {
    const auto message = Message<messages::GroupLost>::build([&](messages::GroupLost::Builder b) {
      b.setReplica(parts_.facts.replica.value);
      b.setEpoch(epoch_.value);
      wire::write(error, b.initError());
      b.setFinal(final);
    });
    for (const Role role : {Role::SCHEDULER, Role::DEVICE_TIER, Role::HOST_TIER, Role::DISK_TIER}) tell_first(find(role), message);
  }

  /// A rank has ignored the abort flag for a whole period: its thread cannot be taken back, but its process can.
  void on_overdue(GroupEpoch epoch) {
    if (epoch != epoch_ || final_) return;
    for (std::uint16_t index = 0; index < ranks_.size(); ++index)
      if (ranks_[index].state == RankState::kLeaving) give_up(index, "a step ignores the abort flag");
  }

  /// A shard that was told to load waits behind a step that does not return.
  void on_silence(std::uint16_t rank, caf::actor_id shard) {
    if (ranks_[rank].shard && ranks_[rank].shard.id() == shard && ranks_[rank].state == RankState::kLoading && !ranks_[rank].heard)
      give_up(rank, "a shard does not begin to load");
  }

  void give_up(std::uint16_t index, const std::string& why) {
    if (in_processes()) return lose_rank(index, why);
    end(make_error(ErrorClass::kGroupLost, ErrorReason::kWatchdog, "the engine stopped answering", {}, why), kExitEngineLost);
  }

  /// Nothing is left to serve: every stream gets its terminal error, then the process is asked to end.
  void end(const Error& error, int exit_code) {
    if (std::exchange(final_, true)) return;
    tell_lost(error, true);
    // A group that was lost has its cause in the detail alone; what could not be loaded says all in the text for users.
    const bool lost_group = error.error_class == ErrorClass::kGroupLost && !error.operator_detail.empty();
    delayed_send(this, kFarewell, EndAtom::value, exit_code, lost_group ? error.operator_detail : error.client_text);
  }

  ReplicaSupervisorDependencies parts_;
  GroupFacts facts_;
  GroupEpoch epoch_;
  base::RestartWindow window_;
  base::Gauge& epoch_gauge_;
  base::Counter& restarts_;
  std::vector<Rank> ranks_;
  unsigned vain_entries_ = 0;  // in a row
  bool final_ = false;
};

}  // namespace

caf::actor spawn_replica_supervisor(caf::actor_system& system, ReplicaSupervisorDependencies dependencies) {
  return system.spawn<ReplicaSupervisor>(std::move(dependencies));
}

}  // namespace troupe::actors
