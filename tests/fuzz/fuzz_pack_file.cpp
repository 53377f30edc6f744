// Any bytes as a file of packed weights, and as the table of one whose head and checksums are right: refused with a reason, or every piece
// of it lies inside the file and can be asked for.
#include "runtime/weights/pack_file.h"
#include "tests/fuzz/fuzz_target.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::weights;

namespace {

constexpr std::size_t kHead = 72, kMaxData = 3 * PackFile::kPiece;

/// A file of these bytes, and zeros up to `size`.
base::Descriptor file_of(const std::string& bytes, std::size_t size) {
  base::Descriptor file(memfd_create("fuzz", MFD_CLOEXEC));
  if (ftruncate(file.get(), static_cast<off_t>(size)) != 0 || !base::write_at(file, 0, std::as_bytes(std::span(bytes)))) std::abort();
  return file;
}

void open_and_read(const std::string& bytes, std::size_t size) {
  std::string why;
  const auto file = PackFile::open(file_of(bytes, size), Hash128{}, why);
  if (file == nullptr) {
    if (why.empty()) std::abort();
    return;
  }
  for (const char* name : {"a", "b", ""}) {
    const PackFile::Entry* entry = file->find(name);
    if (entry == nullptr) continue;
    if (entry->offset + entry->bytes > size) std::abort();
    std::string piece;
    for (std::size_t at = 0; at < entry->bytes; at += PackFile::kPiece) {
      piece.resize(std::min<std::size_t>(PackFile::kPiece, entry->bytes - at));
      file->read(*entry, at, std::as_writable_bytes(std::span(piece)));
    }
  }
}

void put(std::string& out, std::uint64_t number) { out.append(reinterpret_cast<const char*>(&number), sizeof number); }

}  // namespace

FUZZ_TARGET(pack_file) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  open_and_read(bytes, bytes.size());
  // The first byte as the number of entries, the others as the table behind a head that fits them (its layout is in pack_file.h).
  if (bytes.empty()) return 0;
  const std::string table = bytes.substr(1);
  const std::size_t file_bytes = (kHead + table.size() + 4095) / 4096 * 4096 + kMaxData;
  std::string file = "TRPWGHT\n";
  for (const std::uint64_t number : {std::uint64_t{1}, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{file_bytes},
                                     std::uint64_t{static_cast<unsigned char>(bytes[0])}, std::uint64_t{table.size()},
                                     std::uint64_t{XXH3_64bits(table.data(), table.size())}})
    put(file, number);
  put(file, XXH3_64bits(file.data(), file.size()));
  open_and_read(file + table, file_bytes);
  return 0;
}
