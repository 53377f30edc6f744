// A child that drives a disk store is killed at random moments. The next one opens what is left, never gets a wrong byte, and finds every
// block whose put was confirmed and that was not given up since. The child says what it does before and after it does it.
#include "runtime/exec/disk_store.h"
#include "tests/runtime/exec/store_blocks.h"
#include "tests/support/diary_child.h"

#include <unistd.h>

#include <chrono>
#include <map>
#include <thread>

namespace troupe::exec {
namespace {

using namespace troupe::test;

/// A line of the child's diary: number 0 = the place is about to be written over or dropped, else the block is kept there.
struct Entry {
  BlockId place = 0;
  std::uint64_t number = 0;
};

[[noreturn]] void drive(const StoreSpec& spec, int diary, std::uint64_t seed) {
  SmallRandom random(seed);
  const auto note = [diary](const std::vector<Entry>& entries) {  // at most PIPE_BUF: whole or not at all
    if (::write(diary, entries.data(), entries.size() * sizeof(Entry)) < 0) ::_exit(2);
  };
  auto store = DiskStore::open(spec);
  if (!store) ::_exit(3);
  note({{0, UINT64_MAX}});  // ready
  for (;;) {
    std::vector<BlockId> places;
    std::vector<std::uint64_t> numbers;
    std::vector<Entry> before, after;
    auto place = static_cast<BlockId>(random.below(spec.blocks));
    for (std::size_t i = 1 + random.below(12); i > 0 && place < spec.blocks; --i, place += random.below(5) == 0 ? 2 : 1) {
      places.push_back(place);
      numbers.push_back(1 + random.below(1'000'000));
      before.push_back({place, 0});
      after.push_back({place, numbers.back()});
    }
    switch (random.below(8)) {
      case 0: {
        note(before);
        std::vector<StoredBlock> dropped;
        for (const StoredBlock& block : (*store)->inventory())
          if (std::find(places.begin(), places.end(), block.block) != places.end()) dropped.push_back(block);
        (*store)->drop(dropped);
        break;
      }
      case 1: (*store)->tidy(); break;
      case 2:
        for (const StoredBlock& block : (*store)->inventory())
          if (random.below(4) == 0 && !get_block(**store, block.block, block.key.low)) ::_exit(4);
        break;
      default:
        note(before);
        if (put_blocks(**store, places, numbers) != places.size()) ::_exit(5);
        note(after);
    }
  }
}

void kill_and_check(int kills) {
  auto spec = store_spec(fresh_store_folder("crash"), 20'000, 300);
  std::map<BlockId, std::uint64_t> confirmed;
  std::size_t survivors = 0;
  for (int round = 0; round < kills; ++round) {
    CAPTURE(round);
    DiaryChild<Entry> child([&](int diary) { drive(spec, diary, static_cast<std::uint64_t>(round)); });
    SmallRandom random(static_cast<std::uint64_t>(round) + 1000);
    const auto wait = std::chrono::microseconds(random.below(round % 4 == 0 ? 2000 : 40'000));
    std::thread killer;
    Entry entry;
    bool started = false;
    while (child.read(entry)) {
      if (entry.number == UINT64_MAX) {
        started = true;
        killer = std::thread([&child, wait] {
          std::this_thread::sleep_for(wait);
          child.kill();
        });
      } else if (entry.number == 0) {
        confirmed.erase(entry.place);
      } else {
        confirmed[entry.place] = entry.number;
      }
    }
    if (killer.joinable()) killer.join();
    REQUIRE(started);
    REQUIRE(child.was_killed());
    const auto store = open_store(spec);
    for (const StoredBlock& block : store->inventory()) REQUIRE(get_block(*store, block.block, block.key.low));
    for (const auto& [place, number] : confirmed) {
      CAPTURE(place);
      REQUIRE(get_block(*store, place, number));
    }
    survivors += confirmed.size();
  }
  CHECK(survivors > static_cast<std::size_t>(kills));
  CHECK(std::distance(std::filesystem::directory_iterator(spec.folder), std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("a store survives 20 kills") { kill_and_check(20); }
TEST_CASE("a store survives 200 kills", "[.long]") { kill_and_check(200); }

}  // namespace
}  // namespace troupe::exec
