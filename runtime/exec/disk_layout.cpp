#include "runtime/exec/disk_layout.h"

#include <xxhash.h>

#include <bit>

namespace troupe::exec {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::array<char, 8> kMagic{'T', 'R', 'P', 'B', 'L', 'K', 'S', '\n'};
constexpr std::uint64_t kVersion = 1;

std::uint64_t checksum_of_head(const DiskHead& head) { return XXH3_64bits(&head, offsetof(DiskHead, checksum)); }
XXH128_hash_t checksum_of_bytes(std::span<const std::byte> bytes) { return XXH3_128bits(bytes.data(), bytes.size()); }

}  // namespace

DiskLayout::DiskLayout(std::size_t block_bytes, const Hash128& domain)
    : block_bytes_(block_bytes), place_bytes_((block_bytes + kPage - 1) / kPage * kPage), domain_(domain) {}

DiskHead DiskLayout::head() const {
  DiskHead head{kMagic, kVersion, domain_, block_bytes_, 0};
  head.checksum = checksum_of_head(head);
  return head;
}

const char* DiskLayout::fault_of(const DiskHead& head) const {
  if (head.magic != kMagic) return "not a file of K/V blocks";
  if (head.version != kVersion) return "another version";
  if (head.checksum != checksum_of_head(head)) return "damaged head";
  if (head.domain != domain_ || head.block_bytes != block_bytes_) return "of another model or layout";
  return nullptr;
}

DiskRecord DiskLayout::record(BlockId block, const BlockKey& key, std::span<const std::byte> bytes, std::uint64_t used) const {
  const XXH128_hash_t sum = checksum_of_bytes(bytes);
  DiskRecord record{key, {sum.high64, sum.low64}, 0, used, {}};
  record.checksum = checksum_of(block, record);
  return record;
}

bool DiskLayout::sound(BlockId block, const DiskRecord& record) const {
  return record.key && record.checksum == checksum_of(block, record);
}

bool DiskLayout::holds(const DiskRecord& record, std::span<const std::byte> bytes) {
  const XXH128_hash_t sum = checksum_of_bytes(bytes);
  return record.bytes_checksum[0] == sum.high64 && record.bytes_checksum[1] == sum.low64;
}

std::uint64_t DiskLayout::checksum_of(BlockId block, const DiskRecord& record) const {
  return XXH3_64bits_withSeed(&record, offsetof(DiskRecord, checksum), domain_.high ^ domain_.low ^ block);
}

}  // namespace troupe::exec
