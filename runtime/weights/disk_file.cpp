#include "runtime/weights/mapped_file.h"

#include "messages/error_reasons.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe::weights {
namespace {
Error unreadable(const std::filesystem::path& path, const std::string& why, ErrorClass error_class = ErrorClass::kStorageFailed) {
  return make_error(error_class, ErrorReason::kFileUnreadable, path.string() + ": " + why);
}

/// Closes a descriptor at the end of the scope: the mapping does not need it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};
}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on regular files.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return unreadable(path, std::string("cannot open: ") + std::strerror(errno),
                      errno == ENOENT ? ErrorClass::kNotFound : ErrorClass::kStorageFailed);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return unreadable(path, std::string("cannot read: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return unreadable(path, "not a regular file");
  if (info.st_size == 0) return unreadable(path, "the file is empty");
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return unreadable(path, std::string("cannot map: ") + std::strerror(errno));
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(data_), size_); }

}  // namespace troupe::weights
