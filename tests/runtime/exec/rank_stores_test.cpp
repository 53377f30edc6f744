// A rank's stores as one: blocks between every pair of tiers, and everything that a mistaken or late message may say.
#include "runtime/exec/rank_stores.h"

#include "runtime/exec/disk_store.h"
#include "tests/runtime/exec/store_blocks.h"

#include <cstdio>
#include <future>
#include <numeric>
#include <thread>

namespace troupe::exec {
namespace {

using namespace troupe::test;

constexpr std::uint32_t kDevice = 24, kHost = 40, kDisk = 50;
constexpr Tier kTiers[] = {Tier::kDevice, Tier::kHost, Tier::kDisk};

/// Stores over a small cache, driven by hand: nothing runs but when the test says so.
struct Rank {
  explicit Rank(RankStoresSpec s = {}, const std::string& folder = "rank_stores", kernels::KvFormat format = kernels::KvFormat::kInt8)
      : cache(kernels::make_cpu_backend({1, false, 0, {}})->make_kv_cache({2, 1, 16, kDevice, format, false})), spec(std::move(s)) {
    if (spec.host_blocks == 0 && spec.disk_blocks == 0) {
      spec.host_blocks = kHost;
      spec.disk_blocks = kDisk;
    }
    spec.domain = store_domain({{1, 2}, {3, 4}, cache->block_layout()});
    if (spec.folder.empty()) spec.folder = fresh_store_folder(folder);
    spec.spare_bytes = 0;
    spec.drive = TierMover::Drive::kByHand;
    open();
  }
  void open() {
    stores.reset();
    auto opened = RankStores::open(*cache, spec);
    REQUIRE(opened.ok());
    stores = std::move(*opened);
  }
  void settle() {
    while (stores->run_one()) {
    }
  }
  plan::MoveBlocks set(Tier from, Tier to, const std::vector<BlockId>& sources, const std::vector<BlockId>& targets,
                       const std::vector<std::uint64_t>& numbers) {
    plan::MoveBlocks out;
    out.epoch = {7};
    out.move_set = {++last_set};
    for (std::size_t i = 0; i < sources.size(); ++i) {
      out.moves.push_back({sources[i], targets[i], kBlockTokens, from, to});
      out.keys.push_back(block_key(numbers[i]));
    }
    return out;
  }
  /// The place of its report among `reports`.
  std::size_t start(const plan::MoveBlocks& moves) {
    const std::size_t index = reports.size();
    reports.emplace_back();
    stores->start(moves, [this, index](plan::MovesFinished finished) {
      CHECK_FALSE(reports[index]);
      reports[index] = std::move(finished);
    });
    return index;
  }
  plan::MovesFinished run(const plan::MoveBlocks& moves) {
    const std::size_t index = start(moves);
    settle();
    REQUIRE(reports[index]);
    return *reports[index];
  }
  /// One block; whether it arrived.
  bool move(Tier from, Tier to, BlockId source, BlockId target, std::uint64_t number) {
    return run(set(from, to, {source}, {target}, {number})).failed.empty();
  }
  void fill(BlockId block, std::uint64_t number) { cache->write_block(block, block_bytes(block_key(number), cache->block_bytes())); }
  bool is(BlockId block, std::uint64_t number) const {
    std::vector<std::byte> bytes(cache->block_bytes());
    cache->read_block(block, bytes);
    return bytes == block_bytes(block_key(number), cache->block_bytes());
  }
  std::optional<std::vector<StoredBlock>> inventory(Tier tier) {
    std::optional<std::vector<StoredBlock>> out;
    const bool has = stores->inventory(tier, [&out](std::vector<StoredBlock> blocks) { out = std::move(blocks); });
    settle();
    CHECK(has == out.has_value());
    return out;
  }

  std::unique_ptr<kernels::KvCache> cache;
  RankStoresSpec spec;
  std::unique_ptr<RankStores> stores;
  std::vector<std::optional<plan::MovesFinished>> reports;
  std::uint64_t last_set = 0;
};

const std::vector<std::uint32_t> kNone;

TEST_CASE("blocks go between every two tiers of a rank, bit for bit") {
  for (const auto format : kernels::kAllKvFormats) {
    Rank rank({}, "rank_pairs", format);
    CHECK(rank.stores->host_blocks() == kHost);
    CHECK(rank.stores->disk_blocks() == kDisk);
    CHECK(rank.stores->block_bytes() == rank.cache->block_bytes());
    rank.fill(5, 1);
    rank.fill(6, 2);
    // Down by both ways, between the lower two in both directions, and up from both into other blocks.
    const auto report = rank.run(rank.set(Tier::kDevice, Tier::kHost, {5, 6}, {39, 0}, {1, 2}));
    CHECK(report.failed == kNone);
    CHECK_FALSE(report.error);
    CHECK(report.bytes == 2 * rank.cache->block_bytes());
    CHECK(report.epoch.value == 7);
    CHECK(report.move_set.value == 1);
    CHECK(rank.move(Tier::kDevice, Tier::kDisk, 5, 49, 1));
    CHECK(rank.move(Tier::kHost, Tier::kDisk, 0, 1, 2));
    CHECK(rank.move(Tier::kDisk, Tier::kHost, 49, 17, 1));
    CHECK(rank.move(Tier::kHost, Tier::kDevice, 17, 23, 1));
    CHECK(rank.move(Tier::kDisk, Tier::kDevice, 1, 0, 2));
    CHECK((rank.is(23, 1) && rank.is(0, 2) && rank.is(5, 1) && rank.is(6, 2)));
    CHECK(rank.inventory(Tier::kHost)->size() == 3);
    CHECK(rank.inventory(Tier::kDisk)->size() == 2);
    // Loaded blocks are sources at once.
    CHECK(rank.move(Tier::kDevice, Tier::kHost, 23, 20, 1));
    // The process ends: the disk has what it had.
    rank.open();
    CHECK(rank.inventory(Tier::kHost)->empty());
    CHECK(rank.inventory(Tier::kDisk)->size() == 2);
    CHECK(rank.move(Tier::kDisk, Tier::kDevice, 49, 11, 1));
    CHECK(rank.is(11, 1));
  }
}

TEST_CASE("a malformed move fails, and those beside it do not") {
  Rank rank;
  rank.fill(1, 1);
  rank.fill(2, 2);
  auto set = rank.set(Tier::kDevice, Tier::kHost, {1, 1, 1, 1, 1, 1, kDevice, 1, 2, 2}, {1, 2, 3, 4, 5, kHost, 7, 8, 9, 10},
                      {1, 1, 1, 1, 1, 1, 1, 1, 2, 2});
  set.moves[1].to = Tier::kDevice;           // a copy
  set.moves[2].tokens = 31;                  // a part
  set.moves[3].from = static_cast<Tier>(3);  // no such tier
  set.moves[4].to = static_cast<Tier>(0xffff);
  set.keys[7] = {};
  set.keys.pop_back();  // fewer keys than moves
  const auto report = rank.run(set);
  CHECK(report.failed == std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 9});
  CHECK(report.error);
  CHECK(report.bytes == 2 * rank.cache->block_bytes());
  CHECK(rank.inventory(Tier::kHost)->size() == 2);
  CHECK(rank.run({}).failed.empty());
  auto extra = rank.set(Tier::kDevice, Tier::kHost, {1}, {11}, {1});
  extra.keys.push_back(block_key(9));
  CHECK(rank.run(extra).failed.empty());
}

TEST_CASE("a rank without a tier fails what names it, and has nothing to tell of it") {
  RankStoresSpec spec;
  spec.host_blocks = 4;
  Rank rank(spec);
  rank.fill(1, 1);
  CHECK(rank.stores->disk_blocks() == 0);
  CHECK_FALSE(rank.move(Tier::kDevice, Tier::kDisk, 1, 0, 1));
  CHECK_FALSE(rank.move(Tier::kDisk, Tier::kDevice, 0, 2, 1));
  CHECK_FALSE(rank.inventory(Tier::kDisk));
  CHECK_FALSE(rank.inventory(static_cast<Tier>(9)));
  rank.stores->set_incarnation(static_cast<Tier>(9), 1);
  rank.stores->set_incarnation(Tier::kDisk, 1);
  CHECK(rank.move(Tier::kDevice, Tier::kHost, 1, 0, 1));
}

TEST_CASE("a block that is being written does not move") {
  Rank rank;
  rank.fill(1, 1);
  // Handed out between the order and the copy.
  const auto late = rank.start(rank.set(Tier::kDevice, Tier::kHost, {1}, {0}, {1}));
  rank.stores->hand_out(1);
  rank.settle();
  CHECK(rank.reports[late]->failed.size() == 1);
  // Somebody takes it for another block than the one that was loaded into it.
  rank.fill(2, 2);
  REQUIRE(rank.move(Tier::kDevice, Tier::kHost, 2, 3, 2));
  REQUIRE(rank.move(Tier::kHost, Tier::kDevice, 3, 4, 2));
  CHECK_FALSE(rank.move(Tier::kDevice, Tier::kHost, 4, 5, 9));
  rank.stores->hand_out(4);
  rank.fill(4, 9);
  CHECK(rank.move(Tier::kDevice, Tier::kHost, 4, 5, 9));
  CHECK_FALSE(rank.move(Tier::kHost, Tier::kDevice, 5, 6, 2));  // the host knows what it has, too
}

TEST_CASE("moves of a tier's actor that was replaced fail") {
  Rank rank;
  rank.fill(1, 1);
  auto set = rank.set(Tier::kDevice, Tier::kHost, {1}, {0}, {1});
  set.host_tier = 100;
  CHECK(rank.run(set).failed.empty());
  rank.stores->set_incarnation(Tier::kHost, 200);
  CHECK(rank.run(set).failed.size() == 1);
  rank.stores->set_incarnation(Tier::kHost, 150);  // late news
  CHECK(rank.run(set).failed.size() == 1);
  set.host_tier = 200;
  CHECK(rank.run(set).failed.empty());
  set.host_tier = 201;  // its ReportInventory is under way
  CHECK(rank.run(set).failed.empty());
  set.host_tier = 0;  // none is named
  CHECK(rank.run(set).failed.empty());
  set.disk_tier = 5;
  CHECK(rank.run(set).failed.empty());
  rank.stores->set_incarnation(Tier::kDisk, 6);
  CHECK(rank.run(set).failed.size() == 1);
}

TEST_CASE("an inventory comes behind the moves before it") {
  Rank rank;
  rank.fill(1, 1);
  auto set = rank.set(Tier::kDevice, Tier::kHost, {1}, {0}, {1});
  set.background = true;
  rank.start(set);
  CHECK(rank.inventory(Tier::kHost)->size() == 1);
}

TEST_CASE("the end of an epoch cancels what waits and empties the device, not the tiers below") {
  Rank rank;
  for (BlockId block = 0; block < 4; ++block) rank.fill(block, block + 1);
  REQUIRE(rank.run(rank.set(Tier::kDevice, Tier::kHost, {0, 1}, {0, 1}, {1, 2})).failed.empty());
  auto down = rank.set(Tier::kDevice, Tier::kHost, {2, 3}, {2, 3}, {3, 4});
  down.background = true;
  const auto first = rank.start(down), second = rank.start(rank.set(Tier::kHost, Tier::kDevice, {0, 1}, {8, 9}, {1, 2}));
  rank.stores->end_epoch();
  for (const auto index : {first, second}) {
    REQUIRE(rank.reports[index]);
    CHECK(rank.reports[index]->failed.size() == 2);
    REQUIRE(rank.reports[index]->error);
    CHECK(rank.reports[index]->error->error_class == ErrorClass::kCancelled);
  }
  CHECK(rank.inventory(Tier::kHost)->size() == 2);
  CHECK(rank.inventory(Tier::kDevice)->empty());
  CHECK(rank.move(Tier::kHost, Tier::kDevice, 1, 12, 2));
  CHECK(rank.is(12, 2));
}

TEST_CASE("the end of an epoch waits for the batch that runs") {
  RankStoresSpec spec;
  spec.host_blocks = kHost;
  spec.slow = {Tier::kHost, 100'000};  // 20 blocks take a quarter of a second
  Rank rank(spec);
  rank.spec.drive = TierMover::Drive::kThread;
  rank.open();
  std::vector<BlockId> blocks(20);
  std::iota(blocks.begin(), blocks.end(), 0U);
  const std::vector<std::uint64_t> numbers(blocks.begin(), blocks.end());
  const auto go = [&](Tier from, Tier to) {
    const auto end = std::make_shared<std::promise<plan::MovesFinished>>();
    rank.stores->start(rank.set(from, to, blocks, blocks, numbers), [end](auto finished) { end->set_value(std::move(finished)); });
    return end->get_future();
  };
  for (const BlockId block : blocks) rank.fill(block, block);
  REQUIRE(go(Tier::kDevice, Tier::kHost).get().failed.empty());
  auto load = go(Tier::kHost, Tier::kDevice);
  rank.stores->end_epoch();
  REQUIRE(load.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  // Whatever became of it, the device is empty and nothing writes it any more.
  const std::size_t failed = load.get().failed.size();
  CHECK((failed == 0 || failed == 20));
  auto report = std::promise<std::size_t>();
  rank.stores->inventory(Tier::kDevice, [&report](const std::vector<StoredBlock>& all) { report.set_value(all.size()); });
  CHECK(report.get_future().get() == 0);
}

TEST_CASE("more moves than may wait are told as failed at once") {
  RankStoresSpec spec;
  spec.host_blocks = kHost;
  spec.most_moves = 5;
  Rank rank(spec);
  rank.fill(1, 1);
  const std::vector<BlockId> three(3, 1);
  const auto first = rank.start(rank.set(Tier::kDevice, Tier::kHost, three, {0, 1, 2}, {1, 1, 1}));
  const auto second = rank.start(rank.set(Tier::kDevice, Tier::kHost, three, {3, 4, 5}, {1, 1, 1}));
  CHECK_FALSE(rank.reports[first]);
  REQUIRE(rank.reports[second]);
  CHECK(rank.reports[second]->failed == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(rank.reports[second]->error);
  rank.settle();
  CHECK(rank.reports[first]->failed.empty());
}

TEST_CASE("who makes memory resident hears of every block that a move fills") {
  RankStoresSpec spec;
  spec.host_blocks = kHost;
  std::vector<BlockId> heard;
  spec.will_load = [&heard](BlockId block) { heard.push_back(block); };
  Rank rank(spec);
  rank.fill(1, 1);
  REQUIRE(rank.move(Tier::kDevice, Tier::kHost, 1, 0, 1));
  CHECK(heard.empty());
  rank.run(rank.set(Tier::kHost, Tier::kDevice, {0, 0, 0}, {23, kDevice, UINT32_MAX}, {1, 1, 1}));
  CHECK(heard == std::vector<BlockId>{23});
}

TEST_CASE("a disk store that does not open is no tier, and no failure") {
  RankStoresSpec spec;
  spec.disk_blocks = 4;
  spec.host_blocks = 4;
  Rank rank(spec, "rank_locked");
  CHECK(rank.stores->disk_blocks() == 4);
  auto second = RankStores::open(*rank.cache, rank.spec);  // another process would see the same lock
  REQUIRE(second.ok());
  CHECK((*second)->disk_blocks() == 0);
  CHECK((*second)->host_blocks() == 4);
  auto only_disk = rank.spec;
  only_disk.host_blocks = 0;
  const auto none = RankStores::open(*rank.cache, only_disk);
  REQUIRE(none.ok());
  CHECK_FALSE(*none);
}

TEST_CASE("a slow tier is slow to read, and no other") {
  RankStoresSpec spec;
  spec.host_blocks = kHost;
  spec.disk_blocks = kDisk;
  spec.slow = {Tier::kDisk, 1'000'000};
  Rank rank(spec, "rank_slow");
  const std::vector<BlockId> places = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::uint64_t> numbers(places.begin(), places.end());
  for (const BlockId block : places) rank.fill(block, block);
  const std::chrono::duration<double> least(8.0 * static_cast<double>(rank.cache->block_bytes()) / 1e6);
  REQUIRE(rank.run(rank.set(Tier::kDevice, Tier::kDisk, places, places, numbers)).failed.empty());
  REQUIRE(rank.run(rank.set(Tier::kDevice, Tier::kHost, places, places, numbers)).failed.empty());
  const auto from_host = rank.run(rank.set(Tier::kHost, Tier::kDevice, places, places, numbers));
  const auto from_disk = rank.run(rank.set(Tier::kDisk, Tier::kDevice, places, places, numbers));
  CHECK(from_host.failed.empty());
  CHECK(from_disk.failed.empty());
  CHECK(from_disk.micros >= static_cast<std::uint32_t>(least.count() * 1e6));
  CHECK(rank.is(7, 7));
}

TEST_CASE("a read is timed where there is something to read") {
  RankStoresSpec spec;
  spec.slow.bytes_per_second = 1'000'000;  // of the disk
  Rank rank(spec, "rank_timed");
  CHECK(rank.stores->time_read(Tier::kDisk) == 0);
  rank.inventory(Tier::kDisk);
  CHECK(rank.stores->time_read(Tier::kDisk) == 0);  // it is empty
  rank.fill(5, 1);
  REQUIRE(rank.move(Tier::kDevice, Tier::kDisk, 5, 3, 1));
  rank.inventory(Tier::kDisk);
  CHECK(rank.stores->time_read(Tier::kDisk) >= rank.cache->block_bytes());  // 1 us a byte
  CHECK(rank.stores->time_read(Tier::kHost) == 0);
  CHECK(rank.stores->time_read(static_cast<Tier>(9)) == 0);
}

TEST_CASE("places of a tier follow from bytes; what cannot be is refused by name") {
  CHECK(choose_store_blocks("host-cache", 0, 1000, 1).value() == 0U);
  CHECK(choose_store_blocks("host-cache", 10'999, 1000, 1 << 20).value() == 10U);
  CHECK(choose_store_blocks("disk-cache", std::uint64_t{1} << 50, 1000, UINT64_MAX).value() == 1U << 30);
  for (const auto& refused :
       {choose_store_blocks("host-cache", 1999, 1000, 1 << 20), choose_store_blocks("host-cache", 3000, 1000, 2000)}) {
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().parameter == "host-cache");
    CHECK(refused.error().client_text.find("host-cache") == 0);
  }
}

/// For people: `tier_store_test "[.bench]"`. A chat of 2,000 tokens of a small model, as a rank moves it; puts to disk are synced.
TEST_CASE("how long a rank takes to move blocks", "[.bench]") {
  constexpr std::uint32_t kChat = 63, kPlaces = 20 * kChat;
  const auto cache = kernels::make_cpu_backend({})->make_kv_cache({30, 3, 64, kPlaces, kernels::KvFormat::kInt8, true});
  RankStoresSpec spec;
  spec.host_blocks = spec.disk_blocks = kPlaces;
  spec.domain = {1, 2};
  spec.folder = fresh_store_folder("rank_bench");
  const auto stores = RankStores::open(*cache, spec).value();
  std::vector<std::byte> bytes = block_bytes(block_key(1), cache->block_bytes());
  for (BlockId block = 0; block < kPlaces; ++block) cache->write_block(block, bytes);
  std::string line = std::to_string(cache->block_bytes()) + " bytes, us a block:";
  const auto timed = [&](const char* what, Tier from, Tier to, std::uint32_t first_chat) {
    std::uint32_t best = UINT32_MAX, worst = 0;
    for (std::uint32_t chat = first_chat; chat < first_chat + 5; ++chat) {
      plan::MoveBlocks set;
      for (BlockId block = chat * kChat; block < (chat + 1) * kChat; ++block) {
        set.moves.push_back({block, block, kBlockTokens, from, to});
        set.keys.push_back(block_key(block));
      }
      std::promise<plan::MovesFinished> end;
      stores->start(set, [&end](plan::MovesFinished finished) { end.set_value(std::move(finished)); });
      const auto report = end.get_future().get();
      CHECK(report.failed.empty());
      best = std::min(best, report.micros / kChat);
      worst = std::max(worst, report.micros / kChat);
    }
    line += std::string("  ") + what + " " + std::to_string(best) + "-" + std::to_string(worst);
  };
  timed("device>host at once", Tier::kDevice, Tier::kHost, 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // the host takes memory ahead
  timed("device>host", Tier::kDevice, Tier::kHost, 5);
  timed("device>host again", Tier::kDevice, Tier::kHost, 0);
  timed("host>device", Tier::kHost, Tier::kDevice, 0);
  timed("device>disk", Tier::kDevice, Tier::kDisk, 0);
  timed("device>disk again", Tier::kDevice, Tier::kDisk, 0);
  timed("disk>device", Tier::kDisk, Tier::kDevice, 0);
  timed("host>disk", Tier::kHost, Tier::kDisk, 5);
  std::printf("%s\n", line.c_str());
}

}  // namespace
}  // namespace troupe::exec
