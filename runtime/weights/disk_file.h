// DiskFile: a regular file opened for reading, and what tells whether it is still the same. Never mapped: one that is cut while it is
// read gives an error, not a SIGBUS. Immutable; any thread.
#pragma once
#include "messages/error.h"
#include "runtime/base/descriptor.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace troupe::weights {

/// Equal as long as nobody wrote to the file: the kernel sets the time of change, no user can.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;  // since 1970
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class DiskFile {
 public:
  /// Not a regular file, unreadable or empty: an Error{file_unreadable} that names the path.
  static Result<std::unique_ptr<const DiskFile>> open(const std::filesystem::path& path);
  std::uint64_t size() const { return opened_.bytes; }  // at open
  /// At open.
  FileIdentity identity() const { return opened_; }
  /// Nobody has written to the file since.
  bool unchanged() const;
  /// Fills `to` from byte `offset` on. False: the file ends before that, or an error of the disk.
  bool read(std::uint64_t offset, std::span<std::byte> to) const;
  /// An Error{file_unreadable}: "<path>: <why>".
  Error unreadable(const std::string& why) const;

 private:
  DiskFile(std::filesystem::path path, base::Descriptor file, const FileIdentity& opened)
      : path_(std::move(path)), file_(std::move(file)), opened_(opened) {}
  std::filesystem::path path_;
  base::Descriptor file_;
  FileIdentity opened_;
};

}  // namespace troupe::weights
