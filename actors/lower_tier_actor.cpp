#include "actors/lower_tier_actor.h"

#include "actors/tier_actor.h"
#include "actors/tier_metrics.h"
#include "actors/wire/cache.h"
#include "actors/wire/moves.h"
#include "messages/shard_control.capnp.h"
#include "runtime/kv/inventory.h"
#include "runtime/kv/lower_tier.h"

#include <set>

namespace troupe::actors {
namespace {

constexpr std::size_t kMostSets = 2;        // of moves in flight: one runs, one waits behind it
constexpr std::uint32_t kMostMoves = 64;    // in a set
constexpr std::chrono::seconds kQuiet{10};  // between two warnings of writes that failed

Role role_of(Tier tier) { return tier == Tier::kHost ? Role::HOST_TIER : Role::DISK_TIER; }
std::vector<Role> roles_below(Tier tier) { return tier == Tier::kHost ? std::vector{Role::DISK_TIER} : std::vector<Role>{}; }

/// A set of writes that not all ranks have finished.
struct WritesInFlight {
  kv::TierMovesFinished moves;
  std::set<std::uint16_t> ranks;
};

class LowerTierActor final : public TierActor {
 public:
  LowerTierActor(caf::actor_config& config, LowerTierDependencies dependencies)
      : TierActor(config, std::move(dependencies.context), dependencies.tier == Tier::kHost ? "HostTier" : "DiskTier", dependencies.replica,
                  roles_below(dependencies.tier)),
        kind_(dependencies.tier),
        successor_(dependencies.successor),
        metrics_(*context().metrics, kind_ == Tier::kHost ? "host" : "disk"),
        tier_(std::make_unique<kv::LowerTier>(kv::LowerTierSpec{})) {}

  caf::behavior make_behavior() override {
    return caf::message_handler{
        [this](const Message<messages::Match>& message) {
          if (current(message->getEpoch())) on_match(wire::decode(*message));
        },
        [this](const Message<messages::ReleaseBlocks>& message) {
          if (!current(message->getEpoch())) return;
          const auto release = wire::decode(*message);
          tier_->release(release);
          release_below(release);
          report();
        },
        [this](const Message<messages::LoadFinished>& message) {
          if (!current(message->getEpoch())) return;
          const auto load = wire::decode(*message);
          tier_->finish_load(load);
          finish_load_below(load);
          report();
        },
        [this](const Message<messages::WriteDownWanted>& message) {
          if (current(message->getEpoch())) on_wanted(wire::decode(*message));
        },
        [this](const Message<messages::MovesFinished>& message) {
          if (current(message->getEpoch())) on_moves(wire::decode(*message));
        },
        [this](const Message<messages::InventoryReported>& message) {
          const auto page = wire::decode(*message);
          const bool known = tier_->ready() && page.epoch == epoch();
          if (page.tier != kind_ || page.epoch < epoch() || known) return;
          inventory_.add(page);
          adopt_inventory();
        },
        [this](const Message<messages::GroupLost>& message) {
          if (message->getEpoch() < epoch().value) return;
          leave(GroupEpoch{message->getEpoch()});
          sets_.clear();
          tier_->begin_epoch(epoch());
          report();
        },
        [this](const Message<messages::GroupReady>& message) {
          if (is_new(*message)) on_group(message);
        },
        [this](const Message<messages::WatchBlocks>&) {
          watcher_ = sender();
          tier_->watch();
          tell_changes();
        },
    }
        .or_else(common_handlers());
  }

  void on_exit() override {
    TierActor::on_exit();
    holder_ = {};
    watcher_ = {};
    shards_.clear();
  }

 private:
  void on_group(const Message<messages::GroupReady>& message) {
    const std::uint32_t blocks = kind_ == Tier::kHost ? message->getHostBlocks() : message->getDiskBlocks();
    const Incarnation incarnation = registry().incarnation(role_of(kind_), replica());
    if (tier_->spec().blocks != blocks || tier_->spec().incarnation != incarnation) {
      tier_ = std::make_unique<kv::LowerTier>(kv::LowerTierSpec{.incarnation = incarnation, .blocks = blocks});
      if (watcher_) tier_->watch();
      metrics_.begin();
    }
    tier_->begin_epoch(GroupEpoch{message->getEpoch()}, group_has_below(*message));
    sets_.clear();
    shards_.clear();
    for (auto address : message->getShards()) shards_.push_back(registry().resolve(address));
    enter(message);
    if (std::exchange(successor_, false))
      for (const auto& shard : shards_) tell(shard, wire::report_inventory(kind_, incarnation));
    adopt_inventory();
  }

  void adopt_inventory() {
    if (!current(inventory_.epoch().value) || tier_->ready() || !inventory_.whole(shards_.size())) return;
    tier_->adopt_inventory(epoch(), inventory_.take());
    start_writes();
    write_down();
    report();
  }

  /// What a predecessor of the sender held here is void.
  void set_holder(const caf::actor& holder) {
    if (holder == holder_) return;
    if (holder_) lose_holder();
    holder_ = holder;
    monitor(holder_);
  }
  void lose_holder() {
    demonitor(holder_);
    holder_ = {};
    tier_->holder_lost();
  }
  void on_other_down(const caf::down_msg& down) override {
    if (holder_ && holder_.address() == down.source) lose_holder();
  }

  void on_match(const kv::Match& request) {
    set_holder(sender());
    auto run = tier_->match(request);
    const std::size_t found = run.size();
    kv::PrefixMatched own;
    own.epoch = request.epoch;
    own.lock = request.lock;
    if (found > 0) (kind_ == Tier::kHost ? own.host_tier : own.disk_tier) = tier_->spec().incarnation;
    (kind_ == Tier::kHost ? own.host_blocks : own.disk_blocks) = std::move(run);
    answer({sender(), std::move(own), has_below() ? kv::match_below(request, found) : kv::Match()});
    report();
  }

  void on_wanted(const kv::WriteDownWanted& wanted) {
    set_holder(sender());
    source_ = wanted.tier == 0 ? Tier::kDevice : Tier::kHost;
    source_incarnation_ = wanted.tier;
    tell_written(tier_->want(wanted));
    start_writes();
    report();
  }

  void start_writes() {
    while (sets_.size() < kMostSets && !shards_.empty()) {
      const auto started = tier_->start_writes(kMostMoves);
      tell_written(started.answered);
      if (started.writes.empty()) return;
      order(started.writes);
    }
  }

  void order(const std::vector<kv::TierWrite>& writes) {
    plan::MoveBlocks moves;
    moves.epoch = epoch();
    moves.move_set = MoveSetId{++last_set_};
    moves.background = true;
    if (source_ == Tier::kHost) moves.host_tier = source_incarnation_;
    (kind_ == Tier::kHost ? moves.host_tier : moves.disk_tier) = tier_->spec().incarnation;
    WritesInFlight& flying = sets_[moves.move_set];
    flying.moves.epoch = epoch();
    flying.moves.tier = tier_->spec().incarnation;
    for (const kv::TierWrite& write : writes) {
      moves.moves.push_back({write.source, write.place, static_cast<std::uint16_t>(kBlockTokens), source_, kind_});
      moves.keys.push_back(write.key);
      flying.moves.blocks.push_back({write.key, write.place});
    }
    const auto message = wire::encode(moves);
    for (const auto& shard : shards_) tell(shard, message);
  }

  void on_moves(const plan::MovesFinished& finished) {
    const auto at = sets_.find(finished.move_set);
    if (at == sets_.end() || finished.rank >= shards_.size() || !at->second.ranks.insert(finished.rank).second) return;
    WritesInFlight& set = at->second;
    for (const std::uint32_t index : finished.failed)
      if (index < set.moves.blocks.size()) set.moves.failed.push_back(index);
    metrics_.wrote(finished.bytes);
    if (finished.error) warn(*finished.error);
    if (set.ranks.size() < shards_.size()) return;
    const auto ended = sets_.extract(at);
    tell_written(tier_->finish_writes(ended.mapped().moves));
    start_writes();
    write_down();
    report();
  }

  void tell_written(const kv::WrittenDown& written) {
    if (!written.keys.empty() || !written.failed.empty()) tell(holder_, wire::encode(written));
  }

  /// A disk that is full says so for every block.
  void warn(const Error& error) {
    if (warned_ && now() - *warned_ < kQuiet) return;
    warned_ = now();
    log(base::LogLevel::kWarning, "cache_write_failed",
        "reason=" + base::log_value(error.operator_detail.empty() ? error.client_text : error.operator_detail));
  }

  Tier tier() const override { return kind_; }
  Status pin(const kv::PinName& name, std::span<const BlockKey> path, std::uint64_t until) override {
    return tier_->pin(name, path, until);
  }
  void unpin(const kv::PinName& name) override { tier_->unpin(name); }
  void expire_pins(std::uint64_t now) override { tier_->expire(now); }
  std::uint32_t run_of(std::span<const BlockKey> path) const override { return tier_->run_of(path); }
  const kv::WriteDowns& write_downs() const override { return tier_->write_downs(); }
  kv::WriteDownWanted next_write_downs() override { return tier_->next_write_downs(); }
  void written_down(const kv::WrittenDown& written) override { tier_->written_down(written); }
  void tier_below_lost(bool for_good) override { tier_->tier_below_lost(for_good); }
  void join(Asked& asked, const kv::PrefixMatched& below) override { kv::append_below(asked.answer, below); }

  void tell_changes() {
    auto changes = tier_->take_changes();
    if (!changes.empty()) tell(watcher_, wire::encode(kv::BlockEvents{.replica = ReplicaId{replica()}, .changes = std::move(changes)}));
  }

  /// After whatever may have changed the index: to /metrics, and to who watches.
  void report() override {
    tell_changes();
    const auto stats = tier_->stats();
    metrics_.report({.query_tokens = stats.query_blocks * kBlockTokens,
                     .hit_tokens = stats.hit_blocks * kBlockTokens,
                     .written_blocks = stats.written_blocks,
                     .evicted_written = stats.dropped_blocks,
                     .evicted_unwritten = stats.evicted_blocks - stats.dropped_blocks,
                     .failed_writes = stats.failed_writes,
                     .failed_loads = stats.failed_loads,
                     .no_room = stats.refused_blocks,
                     .unwritten = stats.unwritten,
                     .stored = stats.stored,
                     .locked = stats.locked,
                     .free = stats.free});
  }

  const Tier kind_;
  bool successor_;
  TierMetrics metrics_;
  std::unique_ptr<kv::LowerTier> tier_;
  kv::Inventory inventory_;
  caf::actor holder_;
  caf::actor watcher_;           // the device tier, once somebody reads block events
  Tier source_ = Tier::kDevice;  // of what the holder wants written
  Incarnation source_incarnation_ = 0;
  std::vector<caf::actor> shards_;  // by rank
  std::map<MoveSetId, WritesInFlight> sets_;
  std::uint64_t last_set_ = 0;
  std::optional<TimePoint> warned_;
};

}  // namespace

caf::actor spawn_lower_tier(caf::actor_system& system, LowerTierDependencies dependencies) {
  return system.spawn<LowerTierActor>(std::move(dependencies));
}

}  // namespace troupe::actors
