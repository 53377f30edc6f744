#include "runtime/base/cache_folder.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <system_error>

namespace troupe::base {
namespace {

namespace fs = std::filesystem;
constexpr std::array<char, 8> kRecordMagic{'T', 'R', 'P', 'N', 'O', 'T', 'E', '1'};
constexpr std::size_t kRecordHead = kRecordMagic.size() + sizeof(Hash128), kLargestRecord = 64U << 10;
constexpr std::string_view kUnfinished = ".troupe-unfinished";
constexpr std::chrono::hours kAbandoned{1};  // a writer touches its file all the time
constexpr int kMostTries = 8;

Error failed(const fs::path& path, const char* what) {
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kFileUnreadable, path.string() + ": " + what + ": " + std::strerror(errno));
}

std::string unfinished_name(const std::string& name) {
  std::random_device random;
  return name + "." + std::to_string(::getpid()) + "-" + std::to_string(random()) + std::string(kUnfinished);
}

/// A new file that is locked as long as its writer lives. Empty: an error (errno).
Descriptor make_unfinished(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return {};
  struct stat info {};
  while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {  // some file systems have no locks
  }
  // Another process may have deleted it as abandoned before it was locked.
  if (::fstat(file.get(), &info) == 0 && info.st_nlink == 0) {
    errno = EEXIST;
    return {};
  }
  return file;
}

/// Deletes what a writer that died has left. Under the lock, so that a writer about to take it sees that its file is gone.
void remove_abandoned(const fs::path& path, fs::file_time_type touched) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return;
  const bool locked = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  const bool no_locks = !locked && errno != EWOULDBLOCK;
  if (locked || (no_locks && fs::file_time_type::clock::now() - touched > kAbandoned)) ::unlink(path.c_str());
}

bool is_locked(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// "<32 hex digits><suffix>": whatever else lies in the folder is somebody else's.
bool is_key_name(std::string_view name, std::string_view suffix) {
  constexpr std::size_t kDigits = 2 * sizeof(Hash128);
  return name.size() == kDigits + suffix.size() && name.ends_with(suffix) &&
         name.substr(0, kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Covers the name, too: a record is not taken for another.
Hash128 record_checksum(const std::string& name, std::span<const std::byte> bytes) {
  return Hasher().add(std::string_view("record")).add(std::string_view(name)).add(bytes).finish();
}

}  // namespace

Status CacheFolder::make() const {
  fs::path made;
  for (const fs::path& part : path_) {
    made /= part;
    if (::mkdir(made.c_str(), 0700) != 0 && errno != EEXIST) {
      struct stat info {};
      const int error = errno;  // a parent on a read-only disk may well be there
      if (::stat(made.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
      errno = error;
      return failed(made, "cannot make the folder");
    }
  }
  return ok_status();
}

Descriptor CacheFolder::open(const std::string& name) const {
  if (path_.empty()) return {};
  Descriptor file(::open((path_ / name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return {};
  const bool own = info.st_uid == ::geteuid() || info.st_uid == 0;
  if (!S_ISREG(info.st_mode) || !own || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return {};
  const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  ::futimens(file.get(), now);  // best effort: a folder may be read-only
  return file;
}

Status CacheFolder::replace(const std::string& name, const std::function<bool(const Descriptor&)>& write) const {
  if (path_.empty()) return make_error(ErrorClass::kStorageFailed, ErrorReason::kFileUnreadable, "there is no cache folder");
  if (auto status = make(); !status) return status;
  const fs::path target = path_ / name;
  fs::path unfinished;
  Descriptor file;
  for (int i = 0; i < kMostTries && !file; ++i) {
    unfinished = path_ / unfinished_name(name);
    file = make_unfinished(unfinished);
    if (!file && errno != EEXIST) break;
  }
  if (!file) return failed(unfinished, "cannot make the file");
  const auto give_up = [&](const char* what) -> Status {
    const Error error = failed(unfinished, what);
    ::unlink(unfinished.c_str());
    return error;
  };
  errno = 0;
  if (!write(file)) return give_up("cannot write");
  if (::fsync(file.get()) != 0) return give_up("cannot write");
  if (::rename(unfinished.c_str(), target.c_str()) != 0) return give_up("cannot rename");
  const Descriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
  return ok_status();
}

std::optional<std::vector<std::byte>> CacheFolder::record(const std::string& name) const {
  const Descriptor file = open(name);
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < kRecordHead || size > kRecordHead + kLargestRecord) return std::nullopt;
  std::vector<std::byte> bytes(size);
  if (!read_at(file, 0, bytes) || std::memcmp(bytes.data(), kRecordMagic.data(), kRecordMagic.size()) != 0) return std::nullopt;
  Hash128 checksum;
  std::memcpy(&checksum, bytes.data() + kRecordMagic.size(), sizeof checksum);
  bytes.erase(bytes.begin(), bytes.begin() + kRecordHead);
  if (checksum != record_checksum(name, bytes)) return std::nullopt;
  return bytes;
}

Status CacheFolder::keep_record(const std::string& name, std::span<const std::byte> bytes) const {
  TROUPE_CHECK(bytes.size() <= kLargestRecord);
  const Hash128 checksum = record_checksum(name, bytes);
  std::vector<std::byte> whole(kRecordHead);
  std::memcpy(whole.data(), kRecordMagic.data(), kRecordMagic.size());
  std::memcpy(whole.data() + kRecordMagic.size(), &checksum, sizeof checksum);
  whole.insert(whole.end(), bytes.begin(), bytes.end());
  return replace(name, [&](const Descriptor& file) { return write_at(file, 0, whole); });
}

void CacheFolder::trim(std::string_view suffix, std::uint64_t max_bytes, std::size_t max_files) const {
  struct Found {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const std::string name = it->path().filename().string();
    const auto used = it->last_write_time(gone);
    const bool unfinished = name.ends_with(kUnfinished);
    if (gone || !it->is_regular_file(gone) || !(unfinished || is_key_name(name, suffix))) continue;
    if (unfinished)
      remove_abandoned(it->path(), used);
    else
      found.push_back({used, it->file_size(gone), it->path()});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.used > b.used; });
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (is_locked(found[i].path)) continue;
    bytes += found[i].bytes;
    if (i > 0 && (bytes > max_bytes || i >= max_files)) fs::remove(found[i].path, error);
  }
}

std::uint64_t CacheFolder::free_bytes() const {
  struct statvfs info {};
  std::error_code error;
  fs::path existing = fs::absolute(path_, error);  // a relative one may have no parent in it
  while (!existing.empty() && ::statvfs(existing.c_str(), &info) != 0) {
    if (existing == existing.parent_path()) return 0;
    existing = existing.parent_path();
  }
  return existing.empty() ? 0 : std::uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace troupe::base
