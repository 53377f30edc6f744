#include "actors/device_tier_actor.h"

#include "actors/actor_base.h"
#include "actors/wire/cache.h"
#include "messages/supervision.capnp.h"
#include "runtime/base/metric_names.h"
#include "runtime/kv/device_tier.h"

namespace troupe::actors {
namespace {
namespace metric = base::metric;

class DeviceTierActor final : public ActorBase {
 public:
  DeviceTierActor(caf::actor_config& config, DeviceTierDependencies dependencies)
      : ActorBase(config, std::move(dependencies.context), "DeviceTier"),
        usage_(context().metrics->gauge(metric::kKvCacheUsage, "share of device blocks that are leased or locked, 0 to 1")),
        cached_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "cached"}})),
        locked_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "locked"}})),
        leased_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "leased"}})),
        free_(context().metrics->gauge(metric::kCacheBlocks, "device blocks by state", {{"state", "free"}})),
        queries_(context().metrics->counter(metric::kPrefixCacheQueries, "prompt tokens looked up in the prefix cache")),
        hits_(context().metrics->counter(metric::kPrefixCacheHits, "prompt tokens found in the prefix cache")),
        evicted_(context().metrics->counter(metric::kEvictedBlocks, "device blocks evicted")) {}

  caf::behavior make_behavior() override {
    return {
        [this](const Message<messages::Match>& message) {
          if (!current(message->getEpoch())) return;
          tell(sender(), wire::encode(tier_.match(wire::decode(*message))));
          report();
        },
        [this](const Message<messages::LeaseBlocks>& message) {
          if (!current(message->getEpoch())) return;
          tell(sender(), wire::encode(tier_.lease(wire::decode(*message))));
          report();
        },
        [this](const Message<messages::PublishBlocks>& message) {
          if (current(message->getEpoch())) tier_.publish(wire::decode(*message));
        },
        [this](const Message<messages::ReleaseBlocks>& message) {
          if (!current(message->getEpoch())) return;
          tier_.release(wire::decode(*message));
          report();
        },
        [this](const Message<messages::GroupLost>& message) {
          // Empty until GroupReady; what the lost epoch's holder still sends meets no block.
          if (message->getEpoch() >= epoch_.value) begin(GroupEpoch{message->getEpoch() + 1}, 0);
        },
        [this](const Message<messages::GroupReady>& message) {
          if (message->getEpoch() >= epoch_.value) begin(GroupEpoch{message->getEpoch()}, message->getDeviceBlocks());
        },
    };
  }

 private:
  bool current(std::uint32_t epoch) const { return epoch == epoch_.value; }

  void begin(GroupEpoch epoch, std::uint32_t blocks) {
    epoch_ = epoch;
    report();  // counters first: they start anew with the epoch
    tier_.begin_epoch(epoch, blocks);
    told_ = tier_.stats();
    report();
  }

  void report() {
    const auto stats = tier_.stats();
    const auto add = [](base::Counter& counter, std::uint64_t before, std::uint64_t after) {
      if (after > before) counter.increment(static_cast<double>(after - before));
    };
    add(queries_, told_.query_tokens, stats.query_tokens);
    add(hits_, told_.hit_tokens, stats.hit_tokens);
    add(evicted_, told_.evicted_blocks, stats.evicted_blocks);
    usage_.set(stats.total == 0 ? 0.0 : static_cast<double>(stats.leased + stats.locked) / stats.total);
    cached_.set(stats.cached);
    locked_.set(stats.locked);
    leased_.set(stats.leased);
    free_.set(stats.free);
    told_ = stats;
  }

  kv::DeviceTier tier_;
  GroupEpoch epoch_;
  kv::DeviceTierStats told_;
  base::Gauge& usage_;
  base::Gauge& cached_;
  base::Gauge& locked_;
  base::Gauge& leased_;
  base::Gauge& free_;
  base::Counter& queries_;
  base::Counter& hits_;
  base::Counter& evicted_;
};

}  // namespace

caf::actor spawn_device_tier(caf::actor_system& system, DeviceTierDependencies dependencies) {
  return system.spawn<DeviceTierActor>(std::move(dependencies));
}

}  // namespace troupe::actors
