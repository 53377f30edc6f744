#include "runtime/weights/disk_file.h"

#include "messages/error_reasons.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe::weights {
namespace {

Error unreadable_file(const std::filesystem::path& path, const std::string& why, ErrorClass error_class = ErrorClass::kStorageFailed) {
  return make_error(error_class, ErrorReason::kFileUnreadable, path.string() + ": " + why);
}

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileIdentity identity_of(const struct stat& info) {
  return {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
}

}  // namespace

Result<std::unique_ptr<const DiskFile>> DiskFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on regular files.
  base::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return unreadable_file(path, std::string("cannot open: ") + std::strerror(errno),
                           errno == ENOENT ? ErrorClass::kNotFound : ErrorClass::kStorageFailed);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return unreadable_file(path, std::string("cannot read: ") + std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return unreadable_file(path, "is a folder; give the path of one .gguf file in it");
  if (!S_ISREG(info.st_mode)) return unreadable_file(path, "not a regular file");
  if (info.st_size == 0) return unreadable_file(path, "the file is empty");
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // reads ahead twice as far; best effort
  return std::unique_ptr<const DiskFile>(new DiskFile(path, std::move(file), identity_of(info)));
}

bool DiskFile::unchanged() const {
  struct stat info {};
  return ::fstat(file_.get(), &info) == 0 && identity_of(info) == opened_;
}

bool DiskFile::read(std::uint64_t offset, std::span<std::byte> to) const { return base::read_at(file_, offset, to); }

Error DiskFile::unreadable(const std::string& why) const { return unreadable_file(path_, why); }

}  // namespace troupe::weights
