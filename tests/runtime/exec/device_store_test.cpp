// The device among the tiers: blocks of a K/V cache go down and come back bit for bit, for every format and level; tokens computed on
// them are those of the blocks that were computed; moves beside a running step harm neither.
#include "runtime/exec/device_store.h"

#include "runtime/exec/executor.h"
#include "runtime/exec/tier_mover.h"
#include "tests/runtime/exec/greedy_sequence.h"
#include "tests/runtime/exec/store_blocks.h"
#include "tests/support/load_model.h"
#include "tests/support/tiny_model.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <future>

namespace troupe::exec {
namespace {

using namespace troupe::test;

/// All three tiers of a rank over one cache.
struct Tiers {
  explicit Tiers(kernels::KvCache& cache, std::uint32_t below = 64)
      : device(cache), spec(spec_of(cache, below)), host(open_store(spec, "host")), disk(open_store(spec, "disk")) {
    mover = std::make_unique<TierMover>(TierMover::Stores{&device, host.get(), disk.get()});
  }
  static StoreSpec spec_of(const kernels::KvCache& cache, std::uint32_t below) {
    StoreSpec spec = store_spec(fresh_store_folder("device"), cache.block_bytes(), below);
    spec.domain = domain_of(cache);
    return spec;
  }
  static Hash128 domain_of(const kernels::KvCache& cache) { return store_domain({{1, 2}, {3, 4}, cache.block_layout()}); }

  /// A set of moves from sources[i] to targets[i], key block_key(numbers[i]); its end.
  std::future<MovesDone> start(Tier from, Tier to, const std::vector<BlockId>& sources, const std::vector<BlockId>& targets,
                               const std::vector<std::uint64_t>& numbers) {
    const auto promise = std::make_shared<std::promise<MovesDone>>();
    MoveOrder order;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      order.moves.push_back({sources[i], targets[i], kBlockTokens, from, to});
      order.keys.push_back(block_key(numbers[i]));
    }
    order.finished = [promise](MovesDone done) { promise->set_value(std::move(done)); };
    REQUIRE(mover->submit(std::move(order)) != 0);
    return promise->get_future();
  }
  /// Indices of the moves that failed.
  std::vector<std::uint32_t> move(Tier from, Tier to, const std::vector<BlockId>& sources, const std::vector<BlockId>& targets,
                                  const std::vector<std::uint64_t>& numbers) {
    return start(from, to, sources, targets, numbers).get().failed;
  }
  /// The process ends and another one begins: only the disk keeps what it has.
  void restart(const Hash128& domain) {
    mover.reset();
    spec.domain = domain;
    disk.reset();
    device.clear();
    host = open_store(spec, "host");
    disk = open_store(spec, "disk");
    mover = std::make_unique<TierMover>(TierMover::Stores{&device, host.get(), disk.get()});
  }

  DeviceStore device;
  StoreSpec spec;
  std::unique_ptr<TierStore> host, disk;
  std::unique_ptr<TierMover> mover;
};

std::vector<std::byte> bytes_in(const kernels::KvCache& cache, BlockId block) {
  std::vector<std::byte> bytes(cache.block_bytes());
  cache.read_block(block, bytes);
  return bytes;
}

TEST_CASE("blocks go from the device to the host and the disk, and come back bit for bit") {
  const auto format = GENERATE(from_range(std::begin(kernels::kAllKvFormats), std::end(kernels::kAllKvFormats)));
  const bool spread = GENERATE(false, true);
  const auto backend = kernels::make_cpu_backend({1, false, 0, {}});
  const auto cache = backend->make_kv_cache({3, 2, 48, 20, format, spread});
  const auto fill = [&cache](BlockId block, std::uint64_t number) {
    cache->write_block(block, block_bytes(block_key(number), cache->block_bytes()));
  };
  const auto is = [&cache](BlockId block, std::uint64_t number) {
    return bytes_in(*cache, block) == block_bytes(block_key(number), cache->block_bytes());
  };
  Tiers tiers(*cache);
  CHECK(tiers.device.blocks() == 20);
  const std::vector<BlockId> sources = {0, 1, 2, 19, 7}, host = {40, 41, 3, 2, 63}, disk = {0, 9, 8, 62, 63}, back = {5, 4, 3, 8, 9};
  const std::vector<std::uint64_t> numbers = {1, 2, 3, 4, 5};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    fill(sources[i], numbers[i]);
    tiers.device.publish(sources[i], block_key(numbers[i]));
  }
  const std::vector<std::uint32_t> none;
  CHECK(tiers.move(Tier::kDevice, Tier::kHost, sources, host, numbers) == none);
  CHECK(tiers.move(Tier::kHost, Tier::kDevice, host, back, numbers) == none);
  for (std::size_t i = 0; i < back.size(); ++i) CHECK((is(back[i], numbers[i]) && is(sources[i], numbers[i])));

  CHECK(tiers.move(Tier::kHost, Tier::kDisk, host, disk, numbers) == none);
  tiers.restart(Tiers::domain_of(*cache));
  for (BlockId block = 0; block < 20; ++block) cache->poison_block(block);
  CHECK(tiers.move(Tier::kDisk, Tier::kHost, disk, host, numbers) == none);
  CHECK(tiers.move(Tier::kHost, Tier::kDevice, host, sources, numbers) == none);
  for (std::size_t i = 0; i < sources.size(); ++i) CHECK(is(sources[i], numbers[i]));
  CHECK(tiers.device.inventory().size() == sources.size());
  // What is loaded may be read at once, and what lies elsewhere was left alone.
  CHECK(tiers.move(Tier::kDevice, Tier::kHost, sources, disk, numbers) == none);
  CHECK(bytes_in(*cache, 10) == std::vector(cache->block_bytes(), std::byte{0xff}));

  // A program whose blocks have another layout finds nothing, and no error.
  const auto other = backend->make_kv_cache({3, 2, 48, 20, format, !spread});
  REQUIRE(other->block_bytes() == cache->block_bytes());
  tiers.restart(Tiers::domain_of(*other));
  CHECK(tiers.move(Tier::kDisk, Tier::kHost, disk, host, numbers).size() == numbers.size());
}

TEST_CASE("the device's store knows blocks only while somebody vouches for them") {
  const auto cache = kernels::make_cpu_backend({1, false, 0, {}})->make_kv_cache({1, 1, 16, 8, kernels::KvFormat::kInt8, false});
  Tiers tiers(*cache);
  const auto found = [&](BlockId block, std::uint64_t number) {
    return tiers.move(Tier::kDevice, Tier::kHost, {block}, {0}, {number}).empty();
  };
  CHECK_FALSE(found(3, 1));
  CHECK(tiers.device.publish(3, block_key(1)));
  CHECK_FALSE(tiers.device.publish(4, {}));
  CHECK_FALSE(tiers.device.publish(8, block_key(1)));  // not there
  tiers.device.hand_out(UINT32_MAX);
  CHECK(found(3, 1));
  CHECK_FALSE(found(3, 2));
  CHECK_FALSE(found(8, 1));
  CHECK(tiers.device.inventory().size() == 1);
  CHECK(tiers.device.publish(3, block_key(1)));
  CHECK_FALSE(tiers.device.publish(3, block_key(2)));  // it was not handed out
  CHECK((found(3, 1) && !found(3, 2)));
  tiers.device.hand_out(3);
  CHECK(tiers.device.publish(3, block_key(2)));
  CHECK((found(3, 2) && !found(3, 1)));
  tiers.device.hand_out(3);
  CHECK_FALSE(found(3, 2));
  tiers.device.publish(5, block_key(5));
  tiers.device.clear();
  CHECK_FALSE(found(5, 5));
  CHECK(tiers.device.inventory().empty());
}

constexpr std::size_t kDeviceBlocks = 24, kPrompt = 100, kDrawn = 8;
const std::vector<BlockId> kComputed = {5, 3, 9}, kLoaded = {2, 7, 11};
const std::vector<std::uint64_t> kKeys = {1, 2, 3};

/// A tiny model and its executor; a greedy sequence at a time.
struct Rank {
  Rank(kernels::KvFormat format, const std::string& level, std::size_t threads = 1)
      : loaded(load_for_test(write_tiny_model(scratch_folder(), {}), kernels::Activations::kInt8Group32, level, threads)),
        executor(*loaded.model, *loaded.backend, {kDeviceBlocks, format, {}, true}) {
    executor.enter_epoch({epoch});
  }
  /// Steps of a sequence: the prompt behind its first `cached` positions, then draws. `beside` runs before each step.
  std::vector<Drawn> run(const std::vector<BlockId>& blocks, std::uint32_t cached, std::size_t draws = kDrawn,
                         const std::function<void()>& beside = {}) {
    return draw_greedily({epoch, blocks, cached, kPrompt, draws}, step, [&](const plan::ForwardPlan& plan) {
      if (beside) beside();
      return executor.run(plan, go);
    });
  }
  void enter_epoch() {
    executor.enter_epoch({++epoch});
    step = 0;
  }
  LoadedModel loaded;
  Executor executor;
  std::uint32_t epoch = 1;
  std::uint64_t step = 0;
  const std::atomic<bool> go{false};
};

std::vector<BlockId> with_tail(std::vector<BlockId> blocks, BlockId tail) {
  blocks.push_back(tail);
  return blocks;
}

TEST_CASE("tokens on loaded blocks are those on computed ones, also of another level") {
  const auto format = GENERATE(from_range(std::begin(kernels::kAllKvFormats), std::end(kernels::kAllKvFormats)));
  for (const std::string& level : kernels::cpu_isa_levels()) {
    CAPTURE(static_cast<int>(format), level);
    Rank rank(format, level);
    const auto wanted = rank.run(with_tail(kComputed, 1), 0);
    Tiers tiers(rank.executor.kv_cache());
    for (std::size_t i = 0; i < kComputed.size(); ++i) tiers.device.publish(kComputed[i], block_key(kKeys[i]));
    REQUIRE(tiers.move(Tier::kDevice, Tier::kHost, kComputed, {1, 2, 3}, kKeys).empty());
    REQUIRE(tiers.move(Tier::kHost, Tier::kDisk, {1, 2, 3}, {4, 0, 5}, kKeys).empty());

    rank.enter_epoch();  // poisons every block
    tiers.device.clear();
    REQUIRE(tiers.move(Tier::kHost, Tier::kDevice, {1, 2, 3}, kLoaded, kKeys).empty());
    CHECK(rank.run(with_tail(kLoaded, 0), 96) == wanted);
    // A hit of less than all, then the rest computed.
    CHECK(rank.run({kLoaded[0], kLoaded[1], 15, 0}, 64) == wanted);
    // The test sees wrong blocks.
    CHECK(rank.run({kLoaded[1], kLoaded[0], kLoaded[2], 0}, 96) != wanted);

    Rank other(format, "ref", 2);
    REQUIRE(Tiers::domain_of(other.executor.kv_cache()) == tiers.spec.domain);
    tiers.restart(tiers.spec.domain);
    tiers.mover.reset();  // the disk is this thread's
    DeviceStore device(other.executor.kv_cache());
    std::vector<std::byte> bytes(3 * device.block_bytes());
    std::array<BlockRead, 3> reads;
    std::array<BlockWrite, 3> writes;
    const std::array<BlockId, 3> kept = {4, 0, 5};
    for (std::size_t i = 0; i < 3; ++i) {
      reads[i] = {kept[i], block_key(kKeys[i]), &bytes[i * device.block_bytes()]};
      writes[i] = {kLoaded[i], block_key(kKeys[i]), reads[i].to};
    }
    REQUIRE(tiers.disk->get(reads).ok());
    for (const BlockRead& read : reads) REQUIRE(read.done);
    REQUIRE(device.put(writes).ok());
    CHECK(other.run(with_tail(kLoaded, 0), 96) == wanted);
  }
}

TEST_CASE("blocks move while steps run") {
  const auto format = GENERATE(kernels::KvFormat::kInt8, kernels::KvFormat::kFp32);
  Rank rank(format, {}, 2);
  const auto wanted = rank.run(with_tail(kComputed, 1), 0, 28);
  Tiers tiers(rank.executor.kv_cache());
  for (std::size_t i = 0; i < kComputed.size(); ++i) tiers.device.publish(kComputed[i], block_key(kKeys[i]));
  const auto bytes = bytes_in(rank.executor.kv_cache(), kComputed[1]);
  // The sequence shares the published blocks and writes its tail; beside each step the same blocks are written down, and what is below
  // is loaded into leased ones.
  std::vector<std::future<MovesDone>> sets;
  const auto beside = [&] {
    sets.push_back(tiers.start(Tier::kDevice, Tier::kHost, kComputed, {1, 2, 3}, kKeys));
    sets.push_back(tiers.start(Tier::kHost, Tier::kDevice, {1, 2, 3}, kLoaded, kKeys));
  };
  CHECK(rank.run(with_tail(kComputed, 13), 96, 28, beside) == wanted);
  for (auto& set : sets) CHECK(set.get().failed.empty());
  CHECK(bytes_in(rank.executor.kv_cache(), kLoaded[1]) == bytes);
  CHECK(rank.run(with_tail(kLoaded, 14), 96, 28) == wanted);
}

/// For people: `tier_store_test "[.bench]"`. Of a small model, in 8 MiB and one by one; "moved": by the mover, so with its staging.
TEST_CASE("how fast blocks leave the device and come back", "[.bench]") {
  constexpr std::uint32_t kBlocks = 1024, kBatch = 21;
  const auto cache = kernels::make_cpu_backend({})->make_kv_cache({30, 3, 64, kBlocks, kernels::KvFormat::kInt8, true});
  Tiers tiers(*cache, kBlocks);
  const std::size_t size = cache->block_bytes();
  std::vector<std::byte> arena(kBatch * size);
  std::string line = "device of " + std::to_string(size) + " bytes a block";
  const auto timed = [&](const char* what, std::uint32_t together, const auto& batch) {
    const auto start = std::chrono::steady_clock::now();
    for (BlockId first = 0; first + together <= kBlocks; first += together) batch(first, together);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    char text[64];
    std::snprintf(text, sizeof text, "  %s %.2f", what, static_cast<double>(kBlocks / together * together * size) / spent.count() / 1e9);
    line += text;
  };
  const auto put = [&](BlockId first, std::uint32_t together) {
    std::array<BlockWrite, kBatch> writes;
    for (std::uint32_t i = 0; i < together; ++i) writes[i] = {first + i, block_key(first + i), arena.data() + i * size};
    CHECK(tiers.device.put(std::span(writes).first(together)).ok());
  };
  const auto get = [&](BlockId first, std::uint32_t together) {
    std::array<BlockRead, kBatch> reads;
    for (std::uint32_t i = 0; i < together; ++i) reads[i] = {first + i, block_key(first + i), arena.data() + i * size};
    CHECK(tiers.device.get(std::span(reads).first(together)).ok());
  };
  const auto moved = [&](Tier from, Tier to) {
    return [&tiers, from, to](BlockId first, std::uint32_t together) {
      std::vector<BlockId> blocks;
      std::vector<std::uint64_t> numbers;
      for (std::uint32_t i = 0; i < together; ++i) {
        blocks.push_back(first + i);
        numbers.push_back(first + i);
      }
      CHECK(tiers.move(from, to, blocks, blocks, numbers).empty());
    };
  };
  timed("put into new memory", kBatch, put);
  timed("put", kBatch, put);
  timed("put one by one", 1, put);
  timed("get", kBatch, get);
  timed("get one by one", 1, get);
  timed("moved to new memory of the host", kBlocks, moved(Tier::kDevice, Tier::kHost));
  timed("moved to the host", kBlocks, moved(Tier::kDevice, Tier::kHost));
  timed("moved back", kBlocks, moved(Tier::kHost, Tier::kDevice));
  timed("moved back one by one", 1, moved(Tier::kHost, Tier::kDevice));
  std::printf("%s  (GB/s)\n", line.c_str());
}

}  // namespace
}  // namespace troupe::exec
