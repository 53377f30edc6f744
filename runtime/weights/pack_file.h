// The file of packed weights of one model: what the first start packed, for the next one to read. Layout, little-endian:
//   head   magic, version, key (16 bytes), file bytes, entries, table bytes, checksum of the table, checksum of the head
//   table  an entry each: name (length, text), rows, cols, offset, bytes, and a checksum for every 1 MiB piece
//   data   of each entry, from a multiple of 4096 on
// Checksums are XXH3-64: they find damage, they are no signature. The file is untrusted: every count, offset and size is checked against
// the file before use, a piece of data against its checksum before it counts.
#pragma once
#include "messages/ids.h"
#include "runtime/base/descriptor.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::weights {

/// A packed matrix to write. Does not own.
struct PackedMatrix {
  std::string name;
  std::size_t rows = 0, cols = 0;
  std::span<const std::byte> bytes;
};

class PackFile {
 public:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  struct Entry {
    std::uint64_t rows = 0, cols = 0, offset = 0, bytes = 0;
    std::vector<std::uint64_t> checksums;  // of pieces
  };

  /// nullptr unless this is a whole, sound file of that key; `why` says what is wrong with it.
  static std::unique_ptr<const PackFile> open(base::Descriptor file, const Hash128& key, std::string& why);
  /// nullptr = absent.
  const Entry* find(const std::string& name) const;
  /// Bytes of the entry's piece at `offset`, a multiple of kPiece. False: they are not what was written. Any thread.
  bool read(const Entry& entry, std::size_t offset, std::span<std::byte> to) const;

 private:
  PackFile() = default;
  base::Descriptor file_;
  std::map<std::string, Entry> entries_;
};

/// Bytes that write_pack_file will write.
std::uint64_t pack_file_bytes(std::span<const PackedMatrix> matrices);
/// False: an error of the disk (errno), or `stop` was set.
bool write_pack_file(const base::Descriptor& file, const Hash128& key, std::span<const PackedMatrix> matrices,
                     const std::atomic<bool>& stop);

}  // namespace troupe::weights
