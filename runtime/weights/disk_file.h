// MappedFile: a regular file mapped read-only for as long as this object lives. Immutable; any thread.
// The size is that at open: a file cut *before* open is simply shorter (never a SIGBUS); one cut while it is mapped is out of
// scope (replace model files by rename, never in place).
#pragma once
#include "messages/error.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace troupe::weights {

class MappedFile {
 public:
  /// Not a regular file, unreadable or empty: an Error{file_unreadable} that names the path.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace troupe::weights
