// What every TierStore does, over the table of stores and the device's: blocks come back as they were put, or not at all; places and keys
// both count; random operations agree with a map. A new row is tested by these cases as they are.
#include "runtime/exec/tier_store.h"

#include "tests/runtime/exec/store_blocks.h"

#include <array>
#include <cstdlib>
#include <map>
#include <new>
#include <set>

// Counts allocations, where no sanitizer does that itself. Not inlined, or the compiler sees a free() without its malloc().
namespace {
thread_local std::size_t allocations = 0;
}
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace troupe::exec {
namespace {

using namespace troupe::test;

std::string_view each_store() {
  const auto rows = all_stores();
  return rows[GENERATE_COPY(range(std::size_t{0}, rows.size()))].name;
}
std::set<BlockId> places_of(const TierStore& store) {
  std::set<BlockId> places;
  for (const StoredBlock& block : store.inventory()) CHECK(places.insert(block.block).second);
  return places;
}

TEST_CASE("a store gives back what it was given, by place and key") {
  const auto name = each_store();
  CAPTURE(name);
  const std::size_t bytes = GENERATE(1, 63, 4096, 5000, 100'000);
  const auto store = open_store(store_spec(fresh_store_folder("conformance"), bytes, 600), name);
  CHECK(store->blocks() == 600);
  CHECK(store->block_bytes() == bytes);
  CHECK(store->inventory().empty());
  CHECK_FALSE(get_block(*store, 0, 1));

  // Neighbours, across the chunks of a file, apart, and backwards; one call.
  const std::vector<BlockId> places = {0, 1, 2, 254, 255, 256, 257, 599, 10, 9, 511, 512};
  const std::vector<std::uint64_t> numbers = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  CHECK(put_blocks(*store, places, numbers) == places.size());
  std::vector<std::byte> arena(bytes * places.size());
  std::vector<BlockRead> reads;
  for (std::size_t i = 0; i < places.size(); ++i) reads.push_back({places[i], block_key(numbers[i]), arena.data() + i * bytes, false});
  reads.insert(reads.begin() + 1, {5, block_key(1), nullptr, true});   // an empty place
  reads.insert(reads.begin() + 3, {2, block_key(99), nullptr, true});  // another key
  reads.push_back({600, block_key(1), nullptr, true});                 // no such place
  reads.push_back({UINT32_MAX, block_key(1), nullptr, true});          //
  reads.push_back({3, BlockKey{}, nullptr, true});                     // no key is not the key of an empty place
  CHECK(store->get(reads).ok());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    CAPTURE(i);
    CHECK(reads[i].done == (reads[i].to != nullptr));
    if (reads[i].done) CHECK(std::equal(reads[i].to, reads[i].to + bytes, block_bytes(reads[i].key, bytes).begin()));
  }
  CHECK(places_of(*store) == std::set<BlockId>(places.begin(), places.end()));

  // Written over without a drop.
  CHECK(put_blocks(*store, {1}, {77}) == 1);
  CHECK(get_block(*store, 1, 77));
  CHECK_FALSE(get_block(*store, 1, 2));
  CHECK(get_block(*store, 0, 1));
  CHECK(get_block(*store, 2, 3));
  // Dropped only where place and key fit.
  const std::vector<StoredBlock> dropped = {{1, block_key(2)}, {0, block_key(1)}, {700, block_key(1)}, {3, {}}};
  store->drop(dropped);
  CHECK(get_block(*store, 1, 77));
  CHECK_FALSE(get_block(*store, 0, 1));
  CHECK(get_block(*store, 2, 3));
  CHECK(places_of(*store).count(0) == 0);
}

TEST_CASE("a put that names no place or no key keeps nothing and harms nothing") {
  const auto name = each_store();
  const auto store = open_store(store_spec(fresh_store_folder("careless")), name);
  const auto bytes = block_bytes(block_key(1), store->block_bytes());
  std::vector<BlockWrite> writes = {{4, block_key(1), bytes.data()},  {5, {}, bytes.data()},
                                    {6, block_key(1), bytes.data()},  {15, block_key(1), bytes.data()},
                                    {16, block_key(1), bytes.data()}, {UINT32_MAX, block_key(1), bytes.data()}};
  CHECK(store->put(writes).ok());
  for (const BlockWrite& write : writes) CHECK(write.done == (write.block < 16 && write.key));
  CHECK(places_of(*store) == std::set<BlockId>{4, 6, 15});
  CHECK(store->put({}).ok());
  CHECK(store->get({}).ok());
}

TEST_CASE("an inventory begins with what was used least recently") {
  const auto name = each_store();
  auto spec = store_spec(fresh_store_folder("order"));
  auto store = open_store(spec, name);
  const auto order = [&store] {
    std::vector<BlockId> blocks;
    for (const StoredBlock& block : store->inventory()) blocks.push_back(block.block);
    return blocks;
  };
  put_blocks(*store, {0, 1, 2, 3}, {10, 11, 12, 13});
  CHECK(order() == std::vector<BlockId>{0, 1, 2, 3});
  get_block(*store, 1, 11);
  get_block(*store, 0, 10);
  get_block(*store, 3, 99);  // a miss is no use
  CHECK(order() == std::vector<BlockId>{2, 3, 1, 0});
  put_blocks(*store, {2}, {12});
  CHECK(order() == std::vector<BlockId>{3, 1, 0, 2});
  for (const StoredBlock& block : store->inventory()) CHECK(block.age_s < 3600);
  if (!store->survives_restart()) return;
  store.reset();
  store = open_store(spec, name);
  CHECK(order() == std::vector<BlockId>{3, 1, 0, 2});
  get_block(*store, 3, 13);
  CHECK(order() == std::vector<BlockId>{1, 0, 2, 3});
}

TEST_CASE("a store that is warm allocates nothing") {
  const auto name = each_store();
  CAPTURE(name);
  const auto store = open_store(store_spec(fresh_store_folder("allocations"), 5000, 600), name);
  const std::vector<std::byte> bytes = block_bytes(block_key(1), 5000);
  std::vector<std::byte> back(5000 * 64);
  const auto allocated_by_round = [&](BlockId first) {
    std::array<BlockWrite, 64> writes;
    std::array<BlockRead, 64> reads;
    for (BlockId i = 0; i < 64; ++i) {
      writes[i] = {first + i, block_key(i + 1), bytes.data()};
      reads[i] = {first + i, block_key(i + 1), back.data() + i * 5000};
    }
    const StoredBlock dropped{first, block_key(1)};
    const std::size_t before = allocations;
    const bool good = store->put(writes).ok() && store->get(reads).ok();
    store->drop({&dropped, 1});
    store->tidy();
    const std::size_t spent = allocations - before;
    CHECK((good && reads[63].done));
    return spent;
  };
  allocated_by_round(0);
  CHECK(allocated_by_round(0) == 0);
  CHECK(allocated_by_round(200) == 0);
}

TEST_CASE("no store is made of nonsense") {
  const auto name = each_store();
  const auto row = store_row(name);
  auto spec = store_spec(fresh_store_folder("nonsense"));
  const auto refused = [&](auto change) {
    auto wrong = spec;
    change(wrong);
    const auto store = row.open(wrong);
    CHECK_FALSE(store);
    if (!store) CHECK_FALSE(store.error().client_text.empty());
  };
  refused([](StoreSpec& wrong) { wrong.block_bytes = 0; });
  refused([](StoreSpec& wrong) { wrong.blocks = 0; });
  refused([](StoreSpec& wrong) { wrong.blocks = UINT32_MAX; });
  refused([](StoreSpec& wrong) { wrong.block_bytes = std::size_t{1} << 62; });
  // More than any machine has: an error, or a bound that is never reached; not the end of the process.
  spec.blocks = 1U << 20;
  spec.block_bytes = std::size_t{1} << 29;
  if (const auto store = row.open(spec)) CHECK((*store)->inventory().empty());
}

/// The store against a map from places to what was put there last.
void random_operations(std::string_view name, std::uint64_t seed, std::size_t steps) {
  SmallRandom random(seed);
  auto spec = store_spec(fresh_store_folder("random"), 1 + random.below(9000), static_cast<std::uint32_t>(1 + random.below(400)));
  auto store = open_store(spec, name);
  std::map<BlockId, std::uint64_t> model;
  std::size_t hits = 0, reopened = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    const std::uint64_t dice = random.below(100);
    std::vector<BlockId> places;
    auto place = static_cast<BlockId>(random.below(spec.blocks));
    for (std::size_t i = random.below(20); i > 0 && place < spec.blocks; --i) {
      places.push_back(place);
      place += random.below(4) == 0 ? 2 : 1;
    }
    if (dice < 40) {
      std::vector<std::uint64_t> numbers;
      for (std::size_t i = 0; i < places.size(); ++i) numbers.push_back(1 + random.below(500));
      REQUIRE(put_blocks(*store, places, numbers) == places.size());
      for (std::size_t i = 0; i < places.size(); ++i) model[places[i]] = numbers[i];
    } else if (dice < 80) {
      std::vector<std::byte> arena(places.size() * spec.block_bytes);
      std::vector<BlockRead> reads;
      std::vector<bool> expected;
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto found = model.find(places[i]);
        const bool right = found != model.end() && random.below(8) > 0;
        reads.push_back({places[i], block_key(right ? found->second : 1000), arena.data() + i * spec.block_bytes, !right});
        expected.push_back(right);
      }
      REQUIRE(store->get(reads));
      for (std::size_t i = 0; i < reads.size(); ++i) {
        REQUIRE(reads[i].done == expected[i]);
        if (!reads[i].done) continue;
        ++hits;
        REQUIRE(std::equal(reads[i].to, reads[i].to + spec.block_bytes, block_bytes(reads[i].key, spec.block_bytes).begin()));
      }
    } else if (dice < 90) {
      std::vector<StoredBlock> dropped;
      for (const BlockId block : places) {
        const auto found = model.find(block);
        if (found == model.end()) continue;
        dropped.push_back({block, block_key(found->second)});
        model.erase(found);
      }
      store->drop(dropped);
    } else if (dice < 93) {
      store->tidy();
    } else if (dice < 96 && store->survives_restart()) {
      store.reset();
      if (random.below(3) == 0) {  // another bound: what lies beyond it goes
        spec.blocks = static_cast<std::uint32_t>(1 + random.below(400));
        model.erase(model.lower_bound(spec.blocks), model.end());
      }
      store = open_store(spec, name);
      ++reopened;
    }
    std::map<BlockId, BlockKey> there, expected;
    for (const StoredBlock& block : store->inventory()) there[block.block] = block.key;
    for (const auto& [block, number] : model) expected[block] = block_key(number);
    REQUIRE(there == expected);
  }
  CHECK(hits > steps / 10);
  CHECK((reopened > 0) == store->survives_restart());
}

TEST_CASE("random operations agree with a map") {
  const auto name = each_store();
  CAPTURE(name);
  const std::uint64_t seed = GENERATE(1, 2);
  CAPTURE(seed);
  random_operations(name, seed, 250);
}

TEST_CASE("random operations agree with a map, on some 400,000 blocks", "[.long]") {
  const auto name = each_store();
  CAPTURE(name);
  for (std::uint64_t seed = 100; seed < 116; ++seed) {
    CAPTURE(seed);
    random_operations(name, seed, 2500);
  }
}

}  // namespace
}  // namespace troupe::exec
