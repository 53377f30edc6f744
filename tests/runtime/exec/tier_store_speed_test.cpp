// What the stores of every tier give and take in a second.
#include "runtime/exec/disk_store.h"
#include "tests/runtime/exec/store_blocks.h"

#include <fcntl.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <span>

namespace troupe::exec {
namespace {

using namespace troupe::test;

/// For people: `tier_store_test "[.bench]"`. Puts are synced. "cold": from the disk itself, not from the page cache.
TEST_CASE("how fast a store is", "[.bench]") {
  constexpr std::size_t kBytes = 391'680, kBlocks = 1024, kBatch = 21;  // of a small model; 8 MiB
  for (const auto& row : tier_store_rows()) {
    const auto spec = store_spec(fresh_store_folder("bench"), kBytes, kBlocks);
    const auto store = open_store(spec, row.name);
    const auto bytes = block_bytes(block_key(1), kBytes);
    std::vector<std::byte> arena(kBatch * kBytes);
    std::string line(row.name);
    const auto timed = [&](const char* what, std::size_t together, const auto& batch) {
      const auto start = std::chrono::steady_clock::now();
      for (BlockId first = 0; first + together <= kBlocks; first += together) batch(first, together);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      char text[64];
      std::snprintf(text, sizeof text, "  %s %.2f", what,
                    static_cast<double>(kBlocks / together * together * kBytes) / spent.count() / 1e9);
      line += text;
    };
    const auto put = [&](BlockId first, std::size_t together) {
      std::array<BlockWrite, kBatch> writes;
      for (BlockId i = 0; i < together; ++i) writes[i] = {first + i, block_key(first + i), bytes.data()};
      CHECK(store->put(std::span(writes).first(together)).ok());
    };
    const auto get = [&](BlockId first, std::size_t together) {
      std::array<BlockRead, kBatch> reads;
      for (BlockId i = 0; i < together; ++i) reads[i] = {first + i, block_key(first + i), arena.data() + i * kBytes};
      CHECK(store->get(std::span(reads).first(together)).ok());
    };
    timed("put", kBatch, put);
    timed("put over old blocks", kBatch, put);
    timed("put one by one", 1, put);
    timed("get", kBatch, get);
    timed("get one by one", 1, get);
    if (store->survives_restart()) {
      const base::Descriptor file(::open((spec.folder / DiskStore::file_name(spec)).c_str(), O_RDONLY | O_CLOEXEC));
      ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
      timed("get cold", kBatch, get);
    }
    std::printf("%s  (GB/s)\n", line.c_str());
  }
}

}  // namespace
}  // namespace troupe::exec
