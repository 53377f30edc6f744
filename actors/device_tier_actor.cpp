#include "actors/device_tier_actor.h"

#include "actors/block_event_source.h"
#include "actors/tier_actor.h"
#include "actors/tier_metrics.h"
#include "actors/timers.h"
#include "actors/wire/cache.h"
#include "runtime/base/metric_names.h"
#include "runtime/kv/device_tier.h"

namespace troupe::actors {
namespace {
namespace metric = base::metric;
constexpr std::chrono::seconds kLeaseWait{1};   // for blocks that a write-down holds
constexpr std::chrono::milliseconds kJoin{20};  // of block events

class DeviceTierActor final : public TierActor {
 public:
  DeviceTierActor(caf::actor_config& config, DeviceTierDependencies dependencies)
      : TierActor(config, std::move(dependencies.context), "DeviceTier", dependencies.replica, {Role::HOST_TIER, Role::DISK_TIER}),
        usage_(context().metrics->gauge(metric::kKvCacheUsage, "share of device blocks that are leased or locked, 0 to 1")),
        cached_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "cached"}})),
        locked_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "locked"}})),
        leased_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "leased"}})),
        free_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "free"}})),
        queries_(context().metrics->counter(metric::kPrefixCacheQueries, "prompt tokens looked up in the prefix cache")),
        hits_(context().metrics->counter(metric::kPrefixCacheHits, "prompt tokens found in the prefix cache")),
        evicted_(context().metrics->counter(metric::kEvictedBlocks, "device blocks evicted")) {}

  caf::behavior make_behavior() override {
    return caf::message_handler{
        [this](const Message<messages::Match>& message) {
          if (current(message->getEpoch())) on_match(wire::decode(*message));
        },
        [this](const Message<messages::LeaseBlocks>& message) {
          if (!current(message->getEpoch())) return;
          on_lease({sender(), wire::decode(*message)});
          report();
        },
        [this](const Message<messages::PublishBlocks>& message) {
          if (!current(message->getEpoch())) return;
          tier_.publish(wire::decode(*message));
          note_changes();
          write_down();
        },
        [this](const Message<messages::ReleaseBlocks>& message) {
          if (!current(message->getEpoch())) return;
          const auto release = wire::decode(*message);
          tier_.release(release);
          release_below(release);
          lease_more(false);
          report();
        },
        [this](const Message<messages::LoadFinished>& message) {
          if (current(message->getEpoch())) finish_load_below(wire::decode(*message));
        },
        [this](LeaseAtom, std::uint64_t id) {
          if (lease_ && lease_->missing.lease.value == id) lease_more(true);
          report();
        },
        [this](const Message<messages::GroupLost>& message) {
          // Empty until GroupReady; what the lost epoch's holder still sends meets no block.
          if (message->getEpoch() < epoch().value) return;
          leave(GroupEpoch{message->getEpoch()});
          begin(0, false);
        },
        [this](const Message<messages::GroupReady>& message) {
          if (!is_new(*message)) return;
          leave(GroupEpoch{message->getEpoch() - 1});
          begin(message->getDeviceBlocks(), group_has_below(*message));
          enter(message);
          watch_below();
          report();
        },
        [this](const Message<messages::ReadBlockEvents>& message) { on_read(wire::decode(*message)); },
        [this](const Message<messages::BlockEvents>& message) { on_events(wire::decode(*message)); },
        [this](JoinAtom) {
          joining_ = false;
          if (events_) tell_readers(events_->answer_waiting());
        },
    }
        .or_else(common_handlers());
  }

  void on_exit() override {
    TierActor::on_exit();
    events_.reset();
    watched_.clear();
    lease_.reset();
  }

 private:
  void begin(std::uint32_t blocks, bool tier_below) {
    report();  // counters first: they start anew with the epoch
    lease_.reset();
    if (tier_below && !by_tier_) by_tier_.emplace(*context().metrics, "device");
    tier_.begin_epoch(epoch(), blocks, tier_below);
    told_ = tier_.stats();
    report();
  }

  void on_match(const kv::Match& request) {
    auto own = tier_.match(request);
    auto below = has_below() ? kv::match_below(request, own.device_blocks.size()) : kv::Match();
    answer({sender(), std::move(own), std::move(below), request.tokens.size()});
    report();
  }

  void on_read(const kv::ReadBlockEvents& read) {
    if (!events_) {
      events_.emplace(ReplicaId{replica()}, registry().incarnation(Role::DEVICE_TIER, replica()),
                      [this](const BlockKey& key) { return tier_.tokens_of(key); });
      tier_.watch();
      note_changes();
      watch_below();
    }
    tell_readers(events_->read(sender(), read));
    join_changes();
  }

  /// Tiers that are new here; what their predecessors had is forgotten until they tell.
  void watch_below() {
    if (!events_) return;
    for (const auto& [tier, role] : {std::pair{Tier::kHost, Role::HOST_TIER}, std::pair{Tier::kDisk, Role::DISK_TIER}}) {
      auto actor = registry().find(role, replica());
      if (actor == watched_[tier]) continue;
      events_->add(tier, {{kv::BlockChange::Kind::kCleared, tier, {}, {}}});
      watched_[tier] = actor;
      tell(actor, Message<messages::WatchBlocks>::build([&](messages::WatchBlocks::Builder watch) { watch.setReplica(replica()); }));
    }
    join_changes();
  }
  void on_tiers_changed() override { watch_below(); }

  void on_events(kv::BlockEvents told) {
    for (const auto& [tier, actor] : watched_)
      if (actor && actor == sender()) events_->add(tier, std::move(told.changes));
    join_changes();
  }

  void note_changes() {
    if (!events_) return;
    events_->add(Tier::kDevice, tier_.take_changes());
    join_changes();
  }
  void join_changes() {
    if (events_ && events_->due() && !std::exchange(joining_, true)) delayed_send(this, kJoin, JoinAtom::value);
  }
  void tell_readers(const BlockEventSource::Answers& answers) {
    for (const auto& [reader, events] : answers) tell(reader, events);
  }

  /// A request for blocks that is not answered in full. Those that a write-down holds come free by themselves: a holder that hears of too
  /// few in all would take blocks from others, or give up a request for them.
  struct Lease {
    caf::actor asker;
    kv::LeaseBlocks missing;
  };

  void on_lease(Lease lease) {
    const std::uint64_t id = lease.missing.lease.value;
    lease_ = std::move(lease);
    lease_more(false);
    if (lease_) delayed_send(this, kLeaseWait, LeaseAtom::value, id);
  }
  void lease_more(bool last) {
    if (!lease_) return;
    auto leased = tier_.lease(lease_->missing);
    lease_->missing.blocks -= kv::count_blocks(leased.ranges);
    leased.more_follow = !last && lease_->missing.blocks > 0 && !write_downs().asked().empty();
    if (leased.more_follow && leased.ranges.empty()) return;
    tell(lease_->asker, wire::encode(leased));
    if (leased.more_follow) return;
    lease_.reset();
    write_down();
  }

  Tier tier() const override { return Tier::kDevice; }
  Status pin(const kv::PinName& name, std::span<const BlockKey> path, std::uint64_t until) override { return tier_.pin(name, path, until); }
  void unpin(const kv::PinName& name) override { tier_.unpin(name); }
  void expire_pins(std::uint64_t now) override { tier_.expire(now); }
  std::uint32_t run_of(std::span<const BlockKey> path) const override { return tier_.run_of(path); }
  const kv::WriteDowns& write_downs() const override { return tier_.write_downs(); }
  kv::WriteDownWanted next_write_downs() override { return lease_ ? kv::WriteDownWanted() : tier_.next_write_downs(); }
  void written_down(const kv::WrittenDown& written) override {
    tier_.written_down(written);
    lease_more(false);
  }
  void tier_below_lost(bool for_good) override {
    tier_.tier_below_lost(for_good);
    lease_more(false);
  }
  void join(Asked& asked, const kv::PrefixMatched& below) override { tier_.join(asked.answer, below, asked.below, asked.prompt_tokens); }

  void report() override {
    note_changes();
    const auto stats = tier_.stats();
    base::count_up(queries_, told_.query_tokens, stats.query_tokens);
    base::count_up(hits_, told_.hit_tokens, stats.hit_tokens);
    base::count_up(evicted_, told_.evicted_blocks, stats.evicted_blocks);
    usage_.set(stats.total == 0 ? 0.0 : static_cast<double>(stats.leased + stats.locked) / stats.total);
    cached_.set(stats.cached);
    locked_.set(stats.locked);
    leased_.set(stats.leased);
    free_.set(stats.free);
    told_ = stats;
    if (!by_tier_) return;
    by_tier_->report({.query_tokens = stats.query_tokens,
                      .hit_tokens = stats.hit_tokens,
                      .written_blocks = stats.published_blocks,
                      .evicted_written = stats.dropped_blocks,
                      .evicted_unwritten = stats.lost_blocks,
                      .unwritten = stats.unwritten,
                      .stored = stats.cached,
                      .locked = stats.locked,
                      .free = stats.free});
  }

  kv::DeviceTier tier_;
  kv::DeviceTierStats told_;
  std::optional<Lease> lease_;
  base::Gauge& usage_;
  base::Gauge& cached_;
  base::Gauge& locked_;
  base::Gauge& leased_;
  base::Gauge& free_;
  base::Counter& queries_;
  base::Counter& hits_;
  base::Counter& evicted_;
  std::optional<TierMetrics> by_tier_;      // with a tier below
  std::optional<BlockEventSource> events_;  // once somebody reads them
  std::map<Tier, caf::actor> watched_;
  bool joining_ = false;  // a timer runs
};

}  // namespace

caf::actor spawn_device_tier(caf::actor_system& system, DeviceTierDependencies dependencies) {
  return system.spawn<DeviceTierActor>(std::move(dependencies));
}

}  // namespace troupe::actors
