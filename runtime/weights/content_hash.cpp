#include "runtime/weights/content_hash.h"

#include "runtime/base/hash.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

namespace troupe::weights {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20, kReadBytes = std::size_t{1} << 18;
constexpr std::size_t kMostThreads = 8;
constexpr std::int64_t kSettledNs = 2'000'000'000;
constexpr std::uint64_t kMostBytes = 4U << 20;
constexpr std::size_t kMostNotes = 256;
constexpr std::string_view kSuffix = ".content";

bool hash_piece(const DiskFile& file, std::uint64_t offset, std::uint64_t bytes, std::vector<std::byte>& buffer, Hash128& out) {
  base::Hasher hasher;
  for (std::uint64_t done = 0; done < bytes; done += buffer.size()) {
    const auto part = std::span(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes - done)));
    if (!file.read(offset + done, part)) return false;
    hasher.add(part);
  }
  out = hasher.finish();
  return true;
}

std::string note_name(const FileIdentity& file) {
  return base::hex(base::Hasher().add(std::string_view("content of")).add(file.device).add(file.inode).finish()) + std::string(kSuffix);
}

static_assert(std::is_trivially_copyable_v<KnownContent> && sizeof(KnownContent) == 56);  // written as it is

}  // namespace

Result<Hash128> hash_content(const DiskFile& file) {
  const std::size_t pieces = static_cast<std::size_t>((file.size() + kPiece - 1) / kPiece);
  std::vector<Hash128> hashes(pieces);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> good{true};
  const auto work = [&] {
    std::vector<std::byte> buffer(kReadBytes);
    for (std::size_t i; good && (i = next++) < pieces;) {
      const std::uint64_t offset = std::uint64_t{i} * kPiece;
      if (!hash_piece(file, offset, std::min<std::uint64_t>(kPiece, file.size() - offset), buffer, hashes[i])) good = false;
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t threads = std::min({std::size_t{std::thread::hardware_concurrency()}, kMostThreads, pieces});
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  if (!good) return file.unreadable("it was cut or replaced while it was read");
  base::Hasher hasher;
  hasher.add(std::string_view("model content")).add(file.size());
  for (const Hash128& hash : hashes) hasher.add(hash);
  return hasher.finish();
}

Result<KnownContent> content_of(const DiskFile& file, const std::optional<KnownContent>& known, const base::CacheFolder& folder) {
  const FileIdentity identity = file.identity();
  if (known && known->file == identity && file.unchanged()) return *known;
  const std::string name = note_name(identity);
  if (const auto note = folder.record(name); note && note->size() == sizeof(KnownContent)) {
    KnownContent noted;
    std::memcpy(&noted, note->data(), sizeof noted);
    if (noted.file == identity && file.unchanged()) return noted;
  }
  const auto hash = hash_content(file);
  if (!hash) return hash.error();
  if (!file.unchanged()) return file.unreadable("it was written to while it was read; start again when it is whole");
  const KnownContent found{identity, *hash};
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (folder && now - identity.changed_ns > kSettledNs) {
    if (folder.keep_record(name, std::as_bytes(std::span(&found, 1)))) folder.trim(kSuffix, kMostBytes, kMostNotes);
  }
  return found;
}

}  // namespace troupe::weights
