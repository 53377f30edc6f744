#include "actors/replica_supervisor.h"

#include "actors/actor_base.h"
#include "actors/timers.h"
#include "actors/wire/common.h"
#include "messages/error_reasons.h"
#include "messages/shard_control.capnp.h"
#include "messages/supervision.capnp.h"
#include "runtime/base/metric_names.h"
#include "runtime/base/restart_window.h"

#include <algorithm>
#include <random>
#include <vector>

namespace troupe::actors {
namespace {

enum class RankState { kLoading, kOut, kEntering, kIn, kLeaving };
struct Rank {
  caf::actor shard;
  RankState state = RankState::kLoading;
  bool heard = false;                              // a sign of life since LoadShard
  std::uint32_t host_blocks = 0, disk_blocks = 0;  // of its stores; 0 = none
  std::uint64_t block_bytes = 0;
  std::uint32_t disk_read_us = 0;
};

class ReplicaSupervisor final : public ActorBase {
 public:
  ReplicaSupervisor(caf::actor_config& config, ReplicaSupervisorDependencies dependencies)
      : ActorBase(config, dependencies.context, "ReplicaSupervisor"),
        parts_(std::move(dependencies)),
        epoch_{parts_.last_epoch->load()},
        window_(parts_.epochs.restarts, parts_.epochs.window),
        epoch_gauge_(context().metrics->gauge(base::metric::kEpoch, "present group epoch")),
        restarts_(context().metrics->counter(base::metric::kEpochRestarts, "group epochs that were lost")) {
    set_down_handler([this](const caf::down_msg& down) { on_down(down); });
  }

  caf::behavior make_behavior() override {
    // A predecessor's epoch may still be in force at scheduler and tier.
    if (epoch_) tell_lost(lost("the replica's supervisor was restarted"), false);
    ranks_.resize(parts_.ranks);
    for (std::uint16_t rank = 0; rank < parts_.ranks; ++rank) load(rank);
    return {
        [this](const Message<messages::LoadProgress>& message) { on_progress(*message); },
        [this](const Message<messages::ShardLoaded>& message) { on_loaded(*message); },
        [this](const Message<messages::ShardReady>& message) { on_ready(*message); },
        [this](const Message<messages::EpochLeft>& message) { on_left(*message); },
        [this](const Message<messages::ShardFailed>& message) { on_failed(*message); },
        [this](const Message<messages::RestartGroup>&) {
          if (alive()) lose(lost("scheduler or cache tier was restarted"));
        },
        [this](WatchAtom, std::uint32_t epoch) { on_overdue(GroupEpoch{epoch}); },
        [this](ReplyAtom, std::uint16_t rank, caf::actor_id shard) { on_silence(rank, shard); },
        [this](EndAtom, int exit_code, const std::string& reason) {
          if (parts_.on_fatal) parts_.on_fatal(exit_code, reason);
        },
    };
  }

  void on_exit() override {
    for (auto& rank : ranks_) send_exit(rank.shard, caf::exit_reason::user_shutdown);
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
  /// A block is in a tier only where all ranks have it.
  std::uint32_t smallest(std::uint32_t Rank::*blocks) const {
    std::uint32_t least = kNone32;
    for (const auto& rank : ranks_) least = std::min(least, rank.*blocks);
    return least;
  }

  void load(std::uint16_t index) {
    auto& rank = ranks_[index];
    rank = {parts_.start_shard(system(), index), RankState::kLoading, false};
    monitor(rank.shard);
    registry().put(Role::SHARD, index, rank.shard);
    const auto& spec = parts_.shard;
    tell(rank.shard, Message<messages::LoadShard>::build([&](messages::LoadShard::Builder b) {
           b.setReplica(parts_.facts.replica.value);
           b.setRank(index);
           b.setTensorRanks(parts_.ranks);
           b.setStages(1);
           b.setModelPath(wire::to_text(spec.model_path));
           wire::write(parts_.facts.model_content, b.initModelContent());
           b.setBackend("cpu");
           b.setTransport("loopback");
           b.setKvFormat(wire::to_text(spec.kv_format));
           b.setActivations(wire::to_text(spec.activations));
           b.setWeights(wire::to_text(spec.weights));
           b.setDeviceBytes(spec.device_bytes);
           b.setHostBytes(spec.host_bytes);
           b.setDiskBytes(spec.disk_bytes);
           b.setCacheFolder(wire::to_text(spec.cache_folder));
           b.setWatchdogMs(static_cast<std::uint32_t>(parts_.watchdog.count()));
         }));
    if (parts_.watchdog.count() > 0) delayed_send(this, 2 * parts_.watchdog, ReplyAtom::value, index, rank.shard.id());
  }

  void on_progress(messages::LoadProgress::Reader progress) {
    if (progress.getRank() >= ranks_.size()) return;
    ranks_[progress.getRank()].heard = true;
    if (progress.getRank() == 0 && parts_.on_load_progress) parts_.on_load_progress(progress.getDoneBytes(), progress.getTotalBytes());
  }

  void on_loaded(messages::ShardLoaded::Reader loaded) {
    if (loaded.getRank() >= ranks_.size()) return;
    auto& rank = ranks_[loaded.getRank()];
    rank.heard = true;
    rank.state = RankState::kOut;
    rank.host_blocks = loaded.getHostBlocks();
    rank.disk_blocks = loaded.getDiskBlocks();
    rank.block_bytes = loaded.getBlockBytes();
    numerics_ = wire::decode(loaded.getNumerics());
    device_blocks_ = std::min(device_blocks_, loaded.getDeviceBlocks());
    context_tokens_ = std::min(context_tokens_, loaded.getModelContext());
    if (all(RankState::kOut)) enter();
  }

  void enter() {
    if (final_) return;
    epoch_ = GroupEpoch{epoch_.value + 1};
    parts_.last_epoch->store(epoch_.value);
    std::random_device random;
    std::array<kj::byte, 16> token;
    for (auto& byte : token) byte = static_cast<kj::byte>(random());
    const auto message = Message<messages::EnterEpoch>::build([&](messages::EnterEpoch::Builder b) {
      b.setEpoch(epoch_.value);
      b.setToken(kj::arrayPtr(token.data(), token.size()));
      registry().write_address(b.initScheduler(), Role::SCHEDULER, parts_.facts.replica.value);
      b.setDeviceBlocks(device_blocks_);
      b.setHostBlocks(smallest(&Rank::host_blocks));
      b.setDiskBlocks(smallest(&Rank::disk_blocks));
    });
    for (auto& rank : ranks_) {
      rank.state = RankState::kEntering;
      tell(rank.shard, message);
    }
  }

  void on_ready(messages::ShardReady::Reader ready) {
    if (ready.getEpoch() != epoch_.value || ready.getRank() >= ranks_.size()) return;
    auto& rank = ranks_[ready.getRank()];
    if (rank.state != RankState::kEntering) return;
    rank.state = RankState::kIn;
    rank.disk_read_us = ready.getDiskReadMicros();
    if (!all(RankState::kIn)) return;
    epoch_gauge_.set(epoch_.value);
    const auto message = Message<messages::GroupReady>::build([&](messages::GroupReady::Builder b) {
      b.setReplica(parts_.facts.replica.value);
      b.setEpoch(epoch_.value);
      wire::write(numerics_, b.initNumerics());
      b.setDeviceBlocks(device_blocks_);
      b.setHostBlocks(smallest(&Rank::host_blocks));
      b.setDiskBlocks(smallest(&Rank::disk_blocks));
      auto shards = b.initShards(static_cast<unsigned>(ranks_.size()));
      for (unsigned i = 0; i < shards.size(); ++i) registry().write_address(shards[i], Role::SHARD, i);
      b.setContextTokens(context_tokens_);
      std::uint64_t block_bytes = 0;
      for (const auto& each : ranks_) block_bytes += each.block_bytes;
      b.setBlockBytes(block_bytes);
      std::uint32_t disk_read_us = 0;
      for (const auto& each : ranks_) disk_read_us = std::max(disk_read_us, each.disk_read_us);
      b.setDiskReadMicros(disk_read_us);
    });
    // From below: whoever is asked has heard of the epoch before.
    for (const Role role : {Role::DISK_TIER, Role::HOST_TIER, Role::DEVICE_TIER, Role::SCHEDULER}) tell(find(role), message);
    if (parts_.on_ready) std::exchange(parts_.on_ready, {})();
  }

  void on_left(messages::EpochLeft::Reader left) {
    if (left.getEpoch() != epoch_.value || left.getRank() >= ranks_.size()) return;
    auto& rank = ranks_[left.getRank()];
    if (rank.state != RankState::kLeaving) return;
    rank.state = RankState::kOut;
    if (all(RankState::kOut)) enter();
  }

  void on_failed(messages::ShardFailed::Reader failed) {
    const auto error = wire::decode(failed.getError());
    if (failed.getEpoch() == 0) {
      // A model that cannot be loaded will not load the next time either. The fatal callback tells the user; one line is enough.
      log(base::LogLevel::kInfo, "load_failed", "reason=" + std::string(reason_name(error.reason)));
      end(error, kExitLoadFailed);
    } else if (failed.getEpoch() == epoch_.value && alive()) {
      lose(error);
    }
  }

  void on_down(const caf::down_msg& down) {
    const auto dead = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.shard.address() == down.source; });
    if (dead == ranks_.end() || final_) return;
    log(base::LogLevel::kError, "shard_died", "reason=" + describe(down.reason));
    const bool was_alive = alive();
    dead->state = RankState::kLoading;  // no longer one of the survivors
    if (was_alive)
      lose(lost("a shard died"));
    else if (!window_.try_restart(now()))
      end(lost("shards die while they load"), kExitEngineLost);
    if (!final_) load(static_cast<std::uint16_t>(dead - ranks_.begin()));
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

  /// A rank has ignored the abort flag for a whole period: its thread cannot be taken back.
  void on_overdue(GroupEpoch epoch) {
    if (epoch == epoch_ && std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.state == RankState::kLeaving; }))
      end(make_error(ErrorClass::kGroupLost, ErrorReason::kWatchdog, "the engine stopped answering", {}, "a step ignores the abort flag"),
          kExitEngineLost);
  }

  /// A shard that was told to load waits behind a step that does not return.
  void on_silence(std::uint16_t rank, caf::actor_id shard) {
    if (ranks_[rank].shard.id() == shard && ranks_[rank].state == RankState::kLoading && !ranks_[rank].heard)
      end(make_error(ErrorClass::kGroupLost, ErrorReason::kWatchdog, "the engine stopped answering", {}, "a shard does not begin to load"),
          kExitEngineLost);
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
  GroupEpoch epoch_;
  base::RestartWindow window_;
  base::Gauge& epoch_gauge_;
  base::Counter& restarts_;
  std::vector<Rank> ranks_;
  Hash128 numerics_;
  std::uint32_t device_blocks_ = kNone32, context_tokens_ = kNone32;
  bool final_ = false;
};

}  // namespace

caf::actor spawn_replica_supervisor(caf::actor_system& system, ReplicaSupervisorDependencies dependencies) {
  return system.spawn<ReplicaSupervisor>(std::move(dependencies));
}

}  // namespace troupe::actors
