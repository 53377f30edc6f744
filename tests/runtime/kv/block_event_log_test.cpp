// Block events: readers that come, go and lag at random end with exactly the keys that a real device tier and a real lower tier have.
#include "runtime/kv/block_event_log.h"

#include "runtime/kv/device_tier.h"
#include "runtime/kv/lower_tier.h"

#include <catch2/catch.hpp>

#include <random>
#include <set>

namespace troupe::kv {
namespace {

using Kind = BlockChange::Kind;
using Keys = std::set<std::pair<Tier, BlockKey>>;
constexpr std::uint32_t kChains = 12, kDepth = 6;

BlockKey key_of(std::uint32_t chain, std::uint32_t depth) { return {chain + 1, depth + 1}; }
BlockKey parent_of(std::uint32_t chain, std::uint32_t depth) { return depth == 0 ? BlockKey{} : key_of(chain, depth - 1); }

/// Knows only what it was told.
struct Reader {
  std::uint64_t at = 0;
  bool new_here = true;
  Keys keys;

  void apply(const BlockChange& change) {
    if (change.kind == Kind::kCleared)
      std::erase_if(keys, [&](const auto& known) { return known.first == change.tier; });
    else if (change.kind == Kind::kStored)
      REQUIRE(keys.emplace(change.tier, change.key).second);
    else
      REQUIRE(keys.erase({change.tier, change.key}) == 1);
  }
  /// At most so many events; false: it has all.
  bool read(const BlockEventLog& log, std::size_t most) {
    const auto events = new_here ? std::nullopt : log.after(at, most);
    if (!events) {
      keys.clear();
      for (const BlockChange& change : log.snapshot()) apply(change);
      at = log.last();
      new_here = false;
      return false;
    }
    for (const BlockChange& change : *events) apply(change);
    at += events->size();
    return !events->empty();
  }
};

class Tiers {
 public:
  explicit Tiers(std::uint64_t seed) : random_(seed) {
    begin_device();
    begin_lower();
  }

  void step() {
    const std::uint32_t dice = below(100);
    if (dice < 50)
      publish();
    else if (dice < 75)
      want();
    else if (dice < 95)
      finish_write();
    else if (dice < 97)
      begin_device();
    else if (dice < 98)
      begin_lower();
    else if (dice < 99)
      lower_.clear();
    else if (std::exchange(watched_, true))
      lower_.watch();  // as for a device tier that has started anew
    else
      device_.watch(), lower_.watch();
    for (BlockChange& change : device_.take_changes()) log.add(change);
    for (BlockChange& change : lower_.take_changes()) {
      change.tier = Tier::kDisk;
      log.add(change);
    }
  }
  Keys content() const {
    Keys keys;
    if (!watched_) return keys;
    for (std::uint32_t chain = 0; chain < kChains; ++chain)
      for (std::uint32_t depth = 0; depth < kDepth; ++depth) {
        const BlockKey key = key_of(chain, depth);
        if (device_.run_of({&key, 1}) == 1) keys.emplace(Tier::kDevice, key);
        if (lower_.run_of({&key, 1}) == 1) keys.emplace(Tier::kDisk, key);
      }
    return keys;
  }
  std::uint32_t below(std::uint32_t bound) { return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random_); }

  BlockEventLog log{40};

 private:
  void begin_device() { device_.begin_epoch(++device_epoch_, 16); }
  void begin_lower() {
    lower_.begin_epoch(++lower_epoch_);
    writing_.clear();
    std::vector<std::vector<InventoryEntry>> found(1);
    for (BlockId place = 0; place < below(5); ++place) found[0].push_back({key_of(place, below(kDepth)), place, 0});
    lower_.adopt_inventory(lower_epoch_, found);
  }
  void publish() {
    const std::uint32_t chain = below(kChains), length = 1 + below(kDepth);
    const auto leased = device_.lease({device_epoch_, LeaseId{1}, length, true});
    PublishBlocks blocks;
    blocks.epoch = device_epoch_;
    for (const BlockRange& range : leased.ranges)
      for (BlockId block = range.first; block < range.first + range.count; ++block) {
        const auto depth = static_cast<std::uint32_t>(blocks.keys.size());
        blocks.keys.push_back(key_of(chain, depth));
        blocks.blocks.push_back(block);
        for (std::uint32_t i = 0; i < kBlockTokens; ++i) blocks.tokens.push_back(chain * 1000 + depth);
      }
    device_.publish(blocks);
  }
  void want() {
    const std::uint32_t chain = below(kChains), depth = below(kDepth);
    lower_.want({lower_epoch_, {{key_of(chain, depth), parent_of(chain, depth), 0}}, false, 0});
    for (const TierWrite& write : lower_.start_writes().writes) writing_.push_back({write.key, write.place});
  }
  void finish_write() {
    if (writing_.empty()) return;
    TierMovesFinished finished;
    finished.epoch = lower_epoch_;
    finished.blocks.push_back(writing_.back());
    if (below(4) == 0) finished.failed.push_back(0);
    writing_.pop_back();
    lower_.finish_writes(finished);
  }

  struct Epoch {
    GroupEpoch value;
    operator GroupEpoch() const { return value; }
    Epoch& operator++() {
      ++value.value;
      return *this;
    }
  };
  std::mt19937_64 random_;
  Epoch device_epoch_, lower_epoch_;
  DeviceTier device_;
  LowerTier lower_{{.blocks = 12}};
  std::vector<TierMovesFinished::Moved> writing_;
  bool watched_ = false;
};

}  // namespace

TEST_CASE("readers of block events that come, go and lag have exactly what the tiers have") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Tiers tiers(seed);
    std::vector<Reader> readers(4);
    for (int step = 0; step < 1000; ++step) {
      tiers.step();
      Reader& reader = readers[tiers.below(4)];
      if (tiers.below(20) == 0) reader = Reader{};  // forgets all, and where it was
      if (tiers.below(3) == 0) reader.read(tiers.log, 1 + tiers.below(5));
      if (step % 50 != 0) continue;
      const Keys truth = tiers.content();
      for (Reader& each : readers) {
        while (each.read(tiers.log, 7)) {
        }
        REQUIRE(each.at == tiers.log.last());
        REQUIRE(each.keys == truth);
      }
    }
    REQUIRE(tiers.log.last() > 100);
  }
}

TEST_CASE("block events are numbered without gaps and kept as long as there is room") {
  BlockEventLog log(3);
  CHECK(log.after(0, 10)->empty());
  CHECK_FALSE(log.after(1, 10));  // of another life
  for (std::uint64_t i = 1; i <= 5; ++i) log.add({Kind::kStored, Tier::kDevice, {i, 0}, {}});
  CHECK(log.last() == 5);
  CHECK_FALSE(log.after(1, 10));
  REQUIRE(log.after(2, 10));
  CHECK(log.after(2, 10)->front().key == BlockKey{3, 0});
  CHECK(log.after(2, 1)->size() == 1);
  CHECK(log.after(5, 10)->empty());
  CHECK(log.snapshot().size() == 5);
  log.add({Kind::kCleared, Tier::kHost, {}, {}});  // nothing was there
  CHECK(log.last() == 5);
  log.add({Kind::kCleared, Tier::kDevice, {}, {}});
  CHECK(log.last() == 6);
  CHECK(log.snapshot().empty());
}

TEST_CASE("a tier that nobody watches notes no changes") {
  DeviceTier tier;
  tier.begin_epoch(GroupEpoch{1}, 4);
  const auto leased = tier.lease({GroupEpoch{1}, LeaseId{1}, 1, true});
  PublishBlocks blocks{GroupEpoch{1}, {}, {}, {key_of(0, 0)}, {leased.ranges[0].first}, 0, std::vector<TokenId>(kBlockTokens, 7), {}};
  tier.publish(blocks);
  CHECK(tier.take_changes().empty());
  tier.watch();
  const auto told = tier.take_changes();
  REQUIRE(told.size() == 2);
  CHECK(told[0].kind == Kind::kCleared);
  CHECK(told[1] == BlockChange{Kind::kStored, Tier::kDevice, key_of(0, 0), {}});
  CHECK(tier.tokens_of(key_of(0, 0)).size() == kBlockTokens);
  CHECK(tier.tokens_of(key_of(1, 0)).empty());
}

}  // namespace troupe::kv
