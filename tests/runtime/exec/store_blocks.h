// Blocks for tests of stores: bytes follow from the key, so that any block can be checked without keeping a copy.
#pragma once
#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/exec/device_store.h"
#include "runtime/exec/tier_store_table.h"
#include "tests/support/random.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

inline BlockKey block_key(std::uint64_t n) { return {n * 0x9e3779b97f4a7c15U + 1, n}; }

inline std::vector<std::byte> block_bytes(const BlockKey& key, std::size_t bytes) {
  std::vector<std::byte> block(bytes);
  SmallRandom random(key.high ^ key.low);
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(block.data() + at, &word, std::min<std::size_t>(8, bytes - at));
  }
  return block;
}

/// A folder of this test's own, empty and not there. Warnings about what tests do to files are not wanted.
inline std::filesystem::path fresh_store_folder(const std::string& name) {
  base::set_log_level("error");
  const auto path = scratch_folder() / "stores" / name;
  std::filesystem::remove_all(path);
  return path;
}

inline exec::StoreSpec store_spec(const std::filesystem::path& folder, std::size_t bytes = 5000, std::uint32_t blocks = 16) {
  exec::StoreSpec spec;
  spec.block_bytes = bytes;
  spec.blocks = blocks;
  spec.domain = exec::store_domain({{1, 2}, {3, 4}, "a layout"});
  spec.folder = folder;
  spec.spare_bytes = 0;
  return spec;
}

/// A K/V cache of blocks of any size, and the device's store over it, as one store.
class FlatDevice final : public exec::TierStore {
 public:
  static Result<std::unique_ptr<TierStore>> open(const exec::StoreSpec& spec) {
    if (auto checked = exec::check_store(spec); !checked) return checked.error();
    if (spec.block_bytes > (std::size_t{1} << 30) / spec.blocks)
      return make_error(ErrorClass::kUnavailable, ErrorReason::kOutOfMemory, "too much for a test");
    return std::unique_ptr<TierStore>(new FlatDevice(spec));
  }
  bool survives_restart() const override { return store_.survives_restart(); }
  Status put(std::span<exec::BlockWrite> writes) override { return store_.put(writes); }
  Status get(std::span<exec::BlockRead> reads) override { return store_.get(reads); }
  void drop(std::span<const exec::StoredBlock> blocks) override { store_.drop(blocks); }
  std::vector<exec::StoredBlock> inventory() const override { return store_.inventory(); }

 private:
  class FlatCache final : public kernels::KvCache {
   public:
    FlatCache(std::size_t block, std::uint32_t blocks) : block_(block), memory_(block * blocks) { shape_.blocks = blocks; }
    std::size_t bytes() const override { return memory_.size(); }
    void copy_block(std::uint32_t, std::uint32_t, std::size_t) override {}
    void make_resident(std::size_t, std::uint32_t, std::uint32_t) override {}
    void poison_block(std::uint32_t) override {}
    std::size_t block_bytes() const override { return block_; }
    std::string block_layout() const override { return "flat"; }
    void read_block(std::uint32_t block, std::span<std::byte> to) const override {
      std::memcpy(to.data(), &memory_.at(block * block_), to.size());
    }
    void write_block(std::uint32_t block, std::span<const std::byte> from) override {
      std::memcpy(&memory_.at(block * block_), from.data(), from.size());
    }

   private:
    const std::size_t block_;
    std::vector<std::byte> memory_;
  };
  explicit FlatDevice(const exec::StoreSpec& spec) : TierStore(spec), cache_(spec.block_bytes, spec.blocks) {}
  FlatCache cache_;
  exec::DeviceStore store_{cache_};
};

/// The table, and the device's store, which needs a cache and so is no row of it.
inline std::vector<exec::TierStoreRow> all_stores() {
  std::vector<exec::TierStoreRow> rows(exec::tier_store_rows().begin(), exec::tier_store_rows().end());
  rows.push_back({"device", FlatDevice::open, ""});
  return rows;
}
inline exec::TierStoreRow store_row(std::string_view name) {
  for (const auto& row : all_stores())
    if (row.name == name) return row;
  throw std::logic_error("no such store");
}
inline std::unique_ptr<exec::TierStore> open_store(const exec::StoreSpec& spec, std::string_view name = "disk") {
  auto store = store_row(name).open(spec);
  INFO((store ? std::string() : store.error().client_text));
  REQUIRE(store.ok());
  return std::move(*store);
}

/// Puts blocks with keys block_key(numbers[i]) into places[i]; returns how many are kept.
inline std::size_t put_blocks(exec::TierStore& store, const std::vector<BlockId>& places, const std::vector<std::uint64_t>& numbers,
                              Status* status = nullptr) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<exec::BlockWrite> writes;
  for (std::size_t i = 0; i < places.size(); ++i) {
    bytes.push_back(block_bytes(block_key(numbers[i]), store.block_bytes()));
    writes.push_back({places[i], block_key(numbers[i]), bytes.back().data(), true});
  }
  Status result = store.put(writes);
  if (status != nullptr) *status = result;
  return static_cast<std::size_t>(std::count_if(writes.begin(), writes.end(), [](const auto& write) { return write.done; }));
}

/// Gets one block and checks its bytes; false: a miss.
inline bool get_block(exec::TierStore& store, BlockId place, std::uint64_t number, Status* status = nullptr) {
  std::vector<std::byte> bytes(store.block_bytes());
  exec::BlockRead read{place, block_key(number), bytes.data(), true};
  Status result = store.get({&read, 1});
  if (status != nullptr) *status = result;
  if (read.done) REQUIRE(bytes == block_bytes(block_key(number), store.block_bytes()));
  return read.done;
}

}  // namespace troupe::test
