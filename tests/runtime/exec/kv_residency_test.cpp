#include "runtime/exec/kv_residency.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace troupe::exec {
namespace {

/// Notes which blocks were made resident, a layer each.
class NotedCache final : public kernels::KvCache {
 public:
  NotedCache(std::size_t layers, std::uint32_t blocks) : resident_(layers) {
    shape_.layers = layers;
    shape_.blocks = blocks;
  }
  std::size_t bytes() const override { return 0; }
  void copy_block(std::uint32_t, std::uint32_t, std::size_t) override {}
  void poison_block(std::uint32_t) override {}
  std::size_t block_bytes() const override { return 0; }
  std::string block_layout() const override { return "none"; }
  void read_block(std::uint32_t, std::span<std::byte>) const override {}
  void write_block(std::uint32_t, std::span<const std::byte>) override {}
  void make_resident(std::size_t layer, std::uint32_t first, std::uint32_t count) override {
    const std::lock_guard guard(mutex_);
    for (std::uint32_t block = first; block < first + count; ++block) twice_ |= !resident_.at(layer).insert(block).second;
  }
  /// Blocks of the layer that has fewest.
  std::size_t smallest() {
    const std::lock_guard guard(mutex_);
    std::size_t least = SIZE_MAX;
    for (const auto& layer : resident_) least = std::min(least, layer.size());
    return least;
  }
  /// Waits until exactly the blocks [0, count) of every layer are resident, each taken once.
  bool becomes(std::uint32_t count) {
    for (int i = 0; i < 60'000; ++i) {
      {
        const std::lock_guard guard(mutex_);
        bool all = !twice_;
        for (const auto& layer : resident_) all &= layer.size() == count && (count == 0 || *layer.rbegin() == count - 1);
        if (all) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::vector<std::set<std::uint32_t>> resident_;
  bool twice_ = false;
};

}  // namespace

TEST_CASE("memory of K and V is taken ahead of its use, and no further") {
  NotedCache cache(3, 1000);
  KvResidency residency(cache, 100, 2);
  CHECK(cache.becomes(100));
  residency.used(0);
  CHECK(cache.becomes(101));
  residency.used(250);
  CHECK(cache.becomes(351));
  residency.used(17);  // a block that was used before, or lies lower
  residency.used(251);
  CHECK(cache.becomes(352));
  residency.used(999);
  CHECK(cache.becomes(1000));
}

TEST_CASE("a pool smaller than the distance is taken whole, and an end does not wait") {
  NotedCache cache(2, 10);
  {
    const KvResidency residency(cache, 64, 4);
    CHECK(cache.becomes(10));
  }
  NotedCache large(64, 1U << 20);
  {
    KvResidency residency(large, 64, 1);
    residency.used(1U << 19);
  }
  CHECK(large.smallest() < (1U << 19));
}

TEST_CASE("the distance is some 64 MiB, and never less than 64 blocks") {
  CHECK(KvResidency::usual_ahead(1 << 19) == 128);
  CHECK(KvResidency::usual_ahead(1 << 26) == 64);
  CHECK(KvResidency::usual_ahead(0) > 0);
}

TEST_CASE("a CPU cache makes its own blocks resident, and no others") {
  const auto backend = kernels::make_cpu_backend({});
  const auto cache = backend->make_kv_cache({2, 2, 64, 600, kernels::KvFormat::kInt8, false});
  cache->make_resident(0, 0, 600);
  cache->make_resident(1, 0, 600);
  cache->make_resident(1, 599, 1);
  cache->make_resident(1, 600, 0);
  CHECK_THROWS_AS(cache->make_resident(2, 0, 1), std::invalid_argument);
  CHECK_THROWS_AS(cache->make_resident(0, 600, 1), std::invalid_argument);
  CHECK_THROWS_AS(cache->make_resident(0, 1, UINT32_MAX), std::invalid_argument);
}

}  // namespace troupe::exec
