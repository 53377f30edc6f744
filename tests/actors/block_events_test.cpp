// Block events of all cache tiers, as one who reads them over and over knows what each tier has: whoever dies, and when the epoch ends.
#include "actors/wire/cache.h"
#include "tests/actors/tier_bench.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <utility>

using namespace troupe;
using namespace troupe::test;

namespace {

/// Reads block events as the gateway does for a client, and knows only what it was told.
class EventReader {
  using Told = std::shared_ptr<std::vector<kv::BlockEvents>>;

 public:
  explicit EventReader(TierBench& bench) : bench_(bench) {
    // With an argument: without one, CAF 0.17.6 binds a reference to a null pointer.
    const auto listen = [](caf::event_based_actor*, const Told& told) -> caf::behavior {
      return {[told](const Message<messages::BlockEvents>& message) { told->push_back(actors::wire::decode(*message)); }};
    };
    actor_ = bench.system.spawn(listen, told_);
  }
  ~EventReader() { caf::anon_send_exit(actor_, caf::exit_reason::kill); }

  /// Reads until nothing new comes for a while.
  void read() {
    do {
      told_->clear();
      const kv::ReadBlockEvents read{.reader = 1, .query = ++query_, .incarnation = incarnation, .after = at, .tokens = true};
      caf::send_as(actor_, bench_.find(Role::DEVICE_TIER), actors::wire::encode(read));
      bench_.advance(milliseconds{25});
      for (const kv::BlockEvents& events : *told_) apply(events);
    } while (!told_->empty());
  }
  std::size_t count(Tier tier) const {
    return static_cast<std::size_t>(std::count_if(keys.begin(), keys.end(), [&](const auto& known) { return known.first == tier; }));
  }

  std::set<std::pair<Tier, BlockKey>> keys;
  std::map<BlockKey, std::vector<TokenId>> tokens;
  std::uint64_t at = 0, snapshots = 0;
  Incarnation incarnation = 0;

 private:
  void apply(const kv::BlockEvents& events) {
    using Kind = kv::BlockChange::Kind;
    if (events.query != query_) return;
    if (events.cleared) keys.clear();
    if (!events.snapshot) REQUIRE((events.incarnation == incarnation && events.first == at + 1));
    snapshots += events.cleared ? 1 : 0;
    at = events.snapshot ? events.first : at + events.changes.size();
    incarnation = events.incarnation;
    for (std::size_t i = 0; i < events.changes.size(); ++i) {
      const kv::BlockChange& change = events.changes[i];
      if (change.kind == Kind::kCleared) std::erase_if(keys, [&](const auto& known) { return known.first == change.tier; });
      if (change.kind == Kind::kRemoved) REQUIRE(keys.erase({change.tier, change.key}) == 1);
      if (change.kind != Kind::kStored) continue;
      REQUIRE(keys.emplace(change.tier, change.key).second);
      if (!events.tokens.at(i).empty()) tokens[change.key] = events.tokens[i];
    }
  }

  TierBench& bench_;
  caf::actor actor_;
  Told told_ = std::make_shared<std::vector<kv::BlockEvents>>();
  std::uint64_t query_ = 0;
};

}  // namespace

TEST_CASE("block events of all tiers, whoever dies") {
  TierBench bench;
  const auto tokens = chain(1, 20);
  const auto keys = bench.publish(tokens);
  bench.advance(kWhile);
  CHECK(bench.count("HostTier>DeviceTier:BlockEvents") == 0);  // nobody reads them
  EventReader reader(bench);
  reader.read();
  CHECK(reader.snapshots == 1);
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) CHECK(reader.count(tier) == 20);
  CHECK(reader.tokens.at(keys[1]) == std::vector<TokenId>(tokens.begin() + kBlockTokens, tokens.begin() + 2 * kBlockTokens));

  bench.publish(chain(2, 8));
  bench.advance(kWhile);
  empty_device(bench);
  reader.read();
  CHECK(reader.count(Tier::kDevice) == 0);
  CHECK(reader.count(Tier::kHost) == 28);
  CHECK(reader.count(Tier::kDisk) == 28);
  for (const BlockKey& key : keys) CHECK(reader.keys.contains({Tier::kDisk, key}));
  CHECK(reader.snapshots == 1);

  const auto before = reader.keys;
  for (const Role role : {Role::HOST_TIER, Role::DISK_TIER}) {
    const std::uint64_t at = reader.at;
    bench.kill(role);
    bench.advance(kWhile);
    reader.read();
    CHECK(reader.at > at + 28);  // forgotten, and told anew
    CHECK(reader.keys == before);
  }
  CHECK(reader.snapshots == 1);

  bench.publish(chain(3, 4));
  bench.advance(kWhile);
  bench.lose_epoch();
  bench.start_epoch();
  bench.advance(kWhile);
  reader.read();
  CHECK(reader.count(Tier::kDevice) == 0);
  CHECK(reader.count(Tier::kDisk) == 32);
  CHECK(reader.snapshots == 1);

  const Incarnation incarnation = reader.incarnation;
  bench.kill(Role::DEVICE_TIER);
  bench.settle();
  bench.start_epoch();
  bench.advance(kWhile);
  reader.read();
  CHECK(reader.incarnation != incarnation);
  CHECK(reader.snapshots == 2);
  CHECK(reader.count(Tier::kDevice) == 0);
  CHECK(reader.count(Tier::kDisk) == 32);
}
