// DiskLayout: the file of a disk store, little-endian. Every place has a record, and the records say what is in the file:
//   page 0   head: magic, version, domain, sizes, checksum
//   chunks   each: 256 records of 64 bytes, then 256 places of block_bytes, each from a multiple of 4096 on
// A record holds its block's key, a checksum of its bytes (XXH3-128), one of itself that also covers domain and place (XXH3-64), and the
// stamp of its last use, which is not covered: a wrong one costs order only. Zeros are an empty place, so the file may have holes.
// Checksums find damage, they are no signature. A value; any thread.
#pragma once
#include "messages/ids.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::exec {

struct DiskHead {
  std::array<char, 8> magic{};
  std::uint64_t version = 0;
  Hash128 domain;
  std::uint64_t block_bytes = 0;
  std::uint64_t checksum = 0;  // of all before it
};
static_assert(sizeof(DiskHead) == 48);

struct DiskRecord {
  BlockKey key;                       // null = empty
  std::uint64_t bytes_checksum[2]{};  // of the block
  std::uint64_t checksum = 0;         // of all before it, domain and place
  std::uint64_t used = 0;             // UseClock
  std::uint64_t reserved[2]{};
};
static_assert(sizeof(DiskRecord) == 64);

class DiskLayout {
 public:
  static constexpr std::size_t kPage = 4096, kHeadBytes = kPage;
  static constexpr std::uint32_t kChunkBlocks = 256;

  DiskLayout(std::size_t block_bytes, const Hash128& domain);
  std::uint64_t record_at(BlockId block) const { return chunk_at(block) + block % kChunkBlocks * sizeof(DiskRecord); }
  std::uint64_t block_at(BlockId block) const { return chunk_at(block) + kTableBytes + block % kChunkBlocks * place_bytes_; }
  std::size_t place_bytes() const { return place_bytes_; }
  /// The largest that a file of so many places gets.
  std::uint64_t file_bytes(std::uint32_t blocks) const { return block_at(blocks - 1) + place_bytes_; }

  DiskHead head() const;
  /// nullptr, or what is wrong with a head.
  const char* fault_of(const DiskHead& head) const;
  DiskRecord record(BlockId block, const BlockKey& key, std::span<const std::byte> bytes, std::uint64_t used) const;
  /// As written here, for this place.
  bool sound(BlockId block, const DiskRecord& record) const;
  static bool holds(const DiskRecord& record, std::span<const std::byte> bytes);

 private:
  static constexpr std::size_t kTableBytes = kChunkBlocks * sizeof(DiskRecord);
  static_assert(kTableBytes % kPage == 0);
  std::uint64_t chunk_at(BlockId block) const {
    return kHeadBytes + std::uint64_t{block / kChunkBlocks} * (kTableBytes + kChunkBlocks * std::uint64_t{place_bytes_});
  }
  std::uint64_t checksum_of(BlockId block, const DiskRecord& record) const;

  std::size_t block_bytes_, place_bytes_;
  Hash128 domain_;
};

}  // namespace troupe::exec
