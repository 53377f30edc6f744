// The mover between stores: every set ends once, with the moves that failed; requests go before write-down; the queue is bounded; what is
// cancelled ends at the next batch.
#include "runtime/exec/tier_mover.h"

#include "tests/runtime/exec/store_blocks.h"

#include <atomic>
#include <future>
#include <thread>

namespace troupe::exec {
namespace {

using namespace troupe::test;

plan::BlockMove down(BlockId source, BlockId target) { return {source, target, kBlockTokens, Tier::kHost, Tier::kDisk}; }
plan::BlockMove up(BlockId source, BlockId target) { return {source, target, kBlockTokens, Tier::kDisk, Tier::kHost}; }

/// A host store and a disk store, and a mover between them.
struct Pair {
  explicit Pair(std::size_t bytes = 5000, std::uint32_t blocks = 64)
      : host(open_store(store_spec({}, bytes, blocks), "host")), disk(open_store(store_spec(fresh_store_folder("mover"), bytes, blocks))) {}
  std::unique_ptr<TierStore> host, disk;
  TierMover mover{{nullptr, host.get(), disk.get()}};

  MovesDone move(const std::vector<plan::BlockMove>& moves, const std::vector<std::uint64_t>& numbers) {
    std::promise<MovesDone> promise;
    MoveOrder order{moves, {}, false, [&promise](MovesDone done) { promise.set_value(std::move(done)); }};
    for (const std::uint64_t number : numbers) order.keys.push_back(block_key(number));
    REQUIRE(mover.submit(std::move(order)) != 0);
    return promise.get_future().get();
  }
};

/// Gets wait until they are let through, one call each.
class GatedStore final : public TierStore {
 public:
  explicit GatedStore(const StoreSpec& spec) : TierStore(spec) {}
  bool survives_restart() const override { return false; }
  Status put(std::span<BlockWrite> writes) override {
    for (BlockWrite& write : writes) write.done = true;
    return ok_status();
  }
  Status get(std::span<BlockRead> reads) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return passes_ > 0; });
    --passes_;
    --waiting_;
    for (BlockRead& read : reads) read.done = true;
    return ok_status();
  }
  void drop(std::span<const StoredBlock>) override {}
  std::vector<StoredBlock> inventory() const override { return {}; }

  void wait_for_get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0 && passes_ == 0; });
  }
  void let_through(std::size_t calls) {
    const std::lock_guard guard(mutex_);
    passes_ += calls;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t waiting_ = 0, passes_ = 0;
};

/// Ends of sets in the order they came.
struct Ends {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<char, std::size_t>> seen;  // name, failed moves

  MoveOrder order(char name, std::size_t moves, bool background = false) {
    MoveOrder order{std::vector(moves, down(0, 0)), std::vector(moves, block_key(1)), background, {}};
    order.finished = [this, name](MovesDone done) { note(name, done.failed.size()); };
    return order;
  }
  void note(char name, std::size_t failed) {
    const std::lock_guard guard(mutex);
    seen.emplace_back(name, failed);
    changed.notify_all();
  }
  std::string names(std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return seen.size() >= count; });
    std::string all;
    for (const auto& [name, failed] : seen) all += name;
    return all;
  }
  std::size_t failed(char name) {
    const std::lock_guard guard(mutex);
    for (const auto& [seen_name, count] : seen)
      if (seen_name == name) return count;
    return SIZE_MAX;
  }
};

constexpr std::size_t kBatch = 4;  // moves
StoreSpec gated_spec() { return store_spec({}, TierMover::kBatchBytes / kBatch, 8); }

TEST_CASE("blocks go down and come back") {
  Pair pair;
  std::vector<BlockId> places;
  std::vector<std::uint64_t> numbers;
  std::vector<plan::BlockMove> moves;
  for (BlockId i = 0; i < 40; ++i) {
    places.push_back(i);
    numbers.push_back(i + 1);
    moves.push_back(down(i, 63 - i));
  }
  put_blocks(*pair.host, places, numbers);
  const MovesDone written = pair.move(moves, numbers);
  CHECK((written.failed.empty() && !written.error));
  CHECK(written.bytes == 40 * 5000);
  const std::vector<StoredBlock> all = pair.host->inventory();
  pair.host->drop(all);
  for (BlockId i = 0; i < 40; ++i) moves[i] = up(63 - i, i + 10);
  CHECK(pair.move(moves, numbers).failed.empty());
  for (BlockId i = 0; i < 40; ++i) CHECK(get_block(*pair.host, i + 10, i + 1));
  CHECK(pair.move({}, {}).failed.empty());
}

TEST_CASE("a move that cannot be done is one failure, the others are done") {
  Pair pair;
  put_blocks(*pair.host, {0, 1, 2}, {1, 2, 3});
  plan::BlockMove part = down(2, 5), from_device = down(0, 6), nowhere = down(0, 7);
  part.tokens = 31;
  from_device.from = Tier::kDevice;
  nowhere.to = static_cast<Tier>(9);
  const MovesDone done = pair.move({down(0, 0), down(9, 1), down(1, 2), down(1, 3), down(2, 999), part, from_device, nowhere, down(2, 4)},
                                   {1, 1, 2, 77, 3, 3, 1, 1, 3});
  CHECK(done.failed == std::vector<std::uint32_t>{1, 3, 4, 5, 6, 7});
  CHECK(done.bytes == 3 * 5000);
  REQUIRE(done.error);
  CHECK_FALSE(done.error->client_text.empty());
  CHECK(pair.disk->inventory().size() == 3);
}

TEST_CASE("requests go before write-down, also in its middle") {
  GatedStore host(gated_spec()), disk(gated_spec());
  Ends ends;
  TierMover mover({nullptr, &host, &disk});
  mover.submit(ends.order('b', 3 * kBatch, true));
  host.wait_for_get();
  mover.submit(ends.order('c', 1, true));
  mover.post([&ends] { ends.note('t', 0); });
  mover.submit(ends.order('u', kBatch + 1));
  mover.submit(ends.order('v', 1));
  host.let_through(100);
  CHECK(ends.names(5) == "uvbct");
  for (const char name : {'u', 'v', 'b', 'c'}) CHECK(ends.failed(name) == 0);
}

TEST_CASE("the queue is bounded") {
  GatedStore host(gated_spec()), disk(gated_spec());
  Ends ends;
  TierMover mover({nullptr, &host, &disk}, 10);
  CHECK(mover.submit(ends.order('x', 11)) == 0);
  CHECK(mover.submit(ends.order('a', 6)) != 0);
  CHECK(mover.submit(ends.order('b', 5, true)) == 0);
  CHECK(mover.submit(ends.order('c', 4)) != 0);
  CHECK(mover.submit(ends.order('d', 1)) == 0);
  host.let_through(100);
  CHECK(ends.names(2) == "ac");
  CHECK(mover.submit(ends.order('e', 10)) != 0);
  CHECK(ends.names(3) == "ace");
}

TEST_CASE("what is cancelled ends at the next batch") {
  GatedStore host(gated_spec()), disk(gated_spec());
  Ends ends;
  TierMover mover({nullptr, &host, &disk});
  const auto first = mover.submit(ends.order('a', 2 * kBatch + 1));
  const auto second = mover.submit(ends.order('b', 1));
  const auto third = mover.submit(ends.order('c', 1));
  host.wait_for_get();
  mover.cancel(first);
  mover.cancel(third);
  mover.cancel(12345);
  host.let_through(100);
  CHECK(ends.names(3) == "abc");
  CHECK(ends.failed('a') == kBatch + 1);
  CHECK(ends.failed('b') == 0);
  CHECK(ends.failed('c') == 1);
  mover.cancel(second);  // has ended
}

TEST_CASE("everything can be cancelled, and ends with the mover") {
  GatedStore host(gated_spec()), disk(gated_spec());
  Ends ends;
  std::jthread gate;
  {
    TierMover mover({nullptr, &host, &disk});
    mover.submit(ends.order('a', 2 * kBatch));
    mover.submit(ends.order('b', 3, true));
    host.wait_for_get();
    mover.cancel_all();
    host.let_through(1);
    CHECK(ends.names(2) == "ab");
    CHECK((ends.failed('a') == kBatch && ends.failed('b') == 3));
    mover.submit(ends.order('c', kBatch + 2));
    mover.submit(ends.order('d', 1, true));
    mover.post([&ends] { ends.note('t', 0); });
    host.wait_for_get();
    gate = std::jthread([&host] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the mover is about to end; if it is not yet, all the better
      host.let_through(100);
    });
  }
  CHECK(ends.names(5) == "abcdt");
}

TEST_CASE("stores that die of a move fail it") {
  class Broken final : public TierStore {
   public:
    using TierStore::TierStore;
    explicit Broken(const StoreSpec& spec) : TierStore(spec) {}
    bool survives_restart() const override { return false; }
    Status put(std::span<BlockWrite>) override { throw std::runtime_error("broken"); }
    Status get(std::span<BlockRead>) override { throw std::bad_alloc(); }
    void drop(std::span<const StoredBlock>) override {}
    std::vector<StoredBlock> inventory() const override { return {}; }
  };
  Broken host(gated_spec()), disk(gated_spec());
  Ends ends;
  TierMover mover({nullptr, &host, &disk});
  mover.submit(ends.order('a', kBatch + 1));
  CHECK(ends.names(1) == "a");
  CHECK(ends.failed('a') == kBatch + 1);
}

}  // namespace
TEST_CASE("write-down gives way to who computes; requests and ends do not wait for it") {
  const auto host = open_store(store_spec({}, 1 << 20, 64), "host");
  const auto disk = open_store(store_spec(fresh_store_folder("mover"), 1 << 20, 64));
  std::atomic<bool> busy{true};
  TierMover mover({nullptr, host.get(), disk.get()}, TierMover::kMostMoves, TierMover::Drive::kThread, [&busy] { return busy.load(); });
  std::vector<std::byte> bytes(1 << 20);
  std::vector<BlockWrite> writes;
  for (BlockId block = 0; block < 32; ++block) writes.push_back({block, block_key(block), bytes.data(), false});
  REQUIRE(host->put(writes).ok());
  std::promise<MovesDone> written, read;
  MoveOrder down_all{{}, {}, true, [&written](MovesDone done) { written.set_value(std::move(done)); }};
  for (BlockId block = 0; block < 32; ++block) {
    down_all.moves.push_back(down(block, block));
    down_all.keys.push_back(block_key(block));
  }
  auto all_written = written.get_future();
  REQUIRE(mover.submit(std::move(down_all)) != 0);
  SECTION("until nobody computes any more") {
    CHECK(all_written.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);  // some 5 s of pauses lie between
    busy = false;
    CHECK(all_written.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
    CHECK(all_written.get().failed.empty());
  }
  SECTION("a request goes first") {
    MoveOrder up_one{{up(0, 40)}, {block_key(0)}, false, [&read](MovesDone done) { read.set_value(std::move(done)); }};
    REQUIRE(mover.submit(std::move(up_one)) != 0);
    CHECK(read.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    CHECK(all_written.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
    busy = false;
  }
  SECTION("an epoch ends at once") {
    mover.cancel_all();
    mover.wait_until_idle();
    CHECK_FALSE(all_written.get().failed.empty());
  }
  mover.wait_until_idle();
}

}  // namespace troupe::exec
