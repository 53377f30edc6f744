#include "runtime/weights/pack_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace troupe::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::array<char, 8> kMagic{'T', 'R', 'P', 'W', 'G', 'H', 'T', '\n'};
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kAlignment = 4096;
constexpr std::uint64_t kLargestTable = 256U << 20, kLongestName = 64U << 10;
constexpr std::size_t kFlushBytes = std::size_t{8} << 20;

struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint64_t version = kVersion;
  Hash128 key;
  std::uint64_t file_bytes = 0, entries = 0, table_bytes = 0, table_checksum = 0;
  std::uint64_t checksum = 0;  // of all before it
};
static_assert(sizeof(Head) == 72);

std::uint64_t checksum_of(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }
std::uint64_t head_checksum(const Head& head) { return checksum_of(&head, offsetof(Head, checksum)); }
std::uint64_t aligned(std::uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }
std::size_t pieces_of(std::uint64_t bytes) { return static_cast<std::size_t>((bytes + PackFile::kPiece - 1) / PackFile::kPiece); }

void append(std::vector<std::byte>& to, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  to.insert(to.end(), from, from + bytes);
}
void append(std::vector<std::byte>& to, std::uint64_t number) { append(to, &number, sizeof number); }

/// Reads the table front to back; after the first failure everything fails.
class TableReader {
 public:
  explicit TableReader(std::span<const std::byte> table) : rest_(table) {}
  bool number(std::uint64_t& out) { return copy(&out, sizeof out); }
  bool text(std::string& out) {
    std::uint64_t length = 0;
    if (!number(length) || length > std::min<std::uint64_t>(kLongestName, rest_.size())) return false;
    out.resize(static_cast<std::size_t>(length));
    return copy(out.data(), out.size());
  }
  bool numbers(std::vector<std::uint64_t>& out, std::size_t count) {
    if (count > rest_.size() / sizeof(std::uint64_t)) return false;
    out.resize(count);
    return copy(out.data(), count * sizeof(std::uint64_t));
  }
  bool at_end() const { return rest_.empty(); }

 private:
  bool copy(void* to, std::size_t bytes) {
    if (bytes > rest_.size()) return false;
    if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return true;
  }
  std::span<const std::byte> rest_;
};

bool read_table(std::span<const std::byte> table, const Head& head, std::map<std::string, PackFile::Entry>& entries) {
  TableReader reader(table);
  const std::uint64_t data_begin = aligned(sizeof(Head) + head.table_bytes);
  for (std::uint64_t i = 0; i < head.entries; ++i) {  // ends at the latest with the table
    std::string name;
    PackFile::Entry entry;
    if (!reader.text(name) || !reader.number(entry.rows) || !reader.number(entry.cols) || !reader.number(entry.offset) ||
        !reader.number(entry.bytes))
      return false;
    if (entry.offset % kAlignment != 0 || entry.offset < data_begin || entry.offset > head.file_bytes ||
        entry.bytes > head.file_bytes - entry.offset)
      return false;
    if (!reader.numbers(entry.checksums, pieces_of(entry.bytes))) return false;
    if (!entries.try_emplace(std::move(name), std::move(entry)).second) return false;
  }
  return reader.at_end();
}

std::vector<std::byte> make_table(std::span<const PackedMatrix> matrices, std::uint64_t data_begin, bool with_checksums) {
  std::vector<std::byte> table;
  std::uint64_t offset = data_begin;
  for (const PackedMatrix& matrix : matrices) {
    append(table, matrix.name.size());
    append(table, matrix.name.data(), matrix.name.size());
    append(table, matrix.rows);
    append(table, matrix.cols);
    append(table, offset);
    append(table, matrix.bytes.size());
    for (std::size_t at = 0; at < matrix.bytes.size(); at += PackFile::kPiece) {
      const auto piece = matrix.bytes.subspan(at, std::min(PackFile::kPiece, matrix.bytes.size() - at));
      append(table, with_checksums ? checksum_of(piece.data(), piece.size()) : 0);
    }
    offset = aligned(offset + matrix.bytes.size());
  }
  return table;
}

std::uint64_t end_of_data(std::span<const PackedMatrix> matrices, std::uint64_t data_begin) {
  std::uint64_t begin = data_begin, end = data_begin;
  for (const PackedMatrix& matrix : matrices) {
    end = begin + matrix.bytes.size();
    begin = aligned(end);
  }
  return end;
}

}  // namespace

std::unique_ptr<const PackFile> PackFile::open(base::Descriptor file, const Hash128& key, std::string& why) {
  const auto bad = [&why](const char* what) {
    why = what;
    return nullptr;
  };
  struct stat info {};
  Head head;
  std::array<std::byte, sizeof(Head)> bytes{};
  if (!file || ::fstat(file.get(), &info) != 0 || !base::read_at(file, 0, bytes)) return bad("too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic) return bad("not a file of packed weights");
  if (head.version != kVersion) return bad("another version");
  if (head.checksum != head_checksum(head)) return bad("damaged head");
  if (head.key != key) return bad("of another model or layout");
  if (head.file_bytes != static_cast<std::uint64_t>(info.st_size)) return bad("wrong size");
  if (head.table_bytes > kLargestTable || head.table_bytes > head.file_bytes - sizeof(Head)) return bad("table too large");
  std::vector<std::byte> table(static_cast<std::size_t>(head.table_bytes));
  if (!base::read_at(file, sizeof(Head), table)) return bad("too short");
  if (checksum_of(table.data(), table.size()) != head.table_checksum) return bad("damaged table");
  std::unique_ptr<PackFile> opened(new PackFile);
  if (!read_table(table, head, opened->entries_)) return bad("inconsistent table");
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED);  // best effort
  opened->file_ = std::move(file);
  return opened;
}

const PackFile::Entry* PackFile::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

bool PackFile::read(const Entry& entry, std::size_t offset, std::span<std::byte> to) const {
  if (offset % kPiece != 0 || offset >= entry.bytes || to.size() != std::min<std::uint64_t>(kPiece, entry.bytes - offset)) return false;
  return base::read_at(file_, entry.offset + offset, to) && checksum_of(to.data(), to.size()) == entry.checksums[offset / kPiece];
}

std::uint64_t pack_file_bytes(std::span<const PackedMatrix> matrices) {
  return end_of_data(matrices, aligned(sizeof(Head) + make_table(matrices, 0, false).size()));
}

bool write_pack_file(const base::Descriptor& file, const Hash128& key, std::span<const PackedMatrix> matrices,
                     const std::atomic<bool>& stop) {
  const std::uint64_t data_begin = aligned(sizeof(Head) + make_table(matrices, 0, false).size());
  const std::vector<std::byte> table = make_table(matrices, data_begin, true);
  Head head;
  head.key = key;
  head.file_bytes = end_of_data(matrices, data_begin);
  head.entries = matrices.size();
  head.table_bytes = table.size();
  head.table_checksum = checksum_of(table.data(), table.size());
  head.checksum = head_checksum(head);
  if (!base::write_at(file, 0, std::as_bytes(std::span(&head, 1))) || !base::write_at(file, sizeof(Head), table)) return false;
  std::uint64_t offset = data_begin;
  for (const PackedMatrix& matrix : matrices) {
    for (std::size_t at = 0; at < matrix.bytes.size(); at += kFlushBytes) {
      if (stop) return false;
      const auto part = matrix.bytes.subspan(at, std::min(kFlushBytes, matrix.bytes.size() - at));
      if (!base::write_at(file, offset + at, part)) return false;
      // Begins to write back at once, so that the sync at the end is short.
      ::sync_file_range(file.get(), static_cast<off_t>(offset + at), static_cast<off_t>(part.size()), SYNC_FILE_RANGE_WRITE);
    }
    offset = aligned(offset + matrix.bytes.size());
  }
  return true;
}

}  // namespace troupe::weights
