// CacheFolder: files that one start leaves for the next and that may be deleted at any time, also while they are in use. Nothing found
// in it is trusted: callers check what they read. Files are written beside their place, synced and renamed, so that a reader sees a
// whole one or none, whoever else writes. A value; any thread.
#pragma once
#include "messages/error.h"
#include "runtime/base/descriptor.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::base {

class CacheFolder {
 public:
  CacheFolder() = default;
  /// Empty: no cache; nothing is found and nothing kept. The folder is made with the first file, for this user alone.
  explicit CacheFolder(std::filesystem::path path) : path_(std::move(path)) {}
  explicit operator bool() const { return !path_.empty(); }
  const std::filesystem::path& path() const { return path_; }
  /// Makes the folder, if it is not there.
  Status make() const;

  /// For reading; counts as a use. None if it is absent, no regular file, or other users could have written it.
  Descriptor open(const std::string& name) const;
  /// Makes or replaces a file: `write` fills an empty one. On an error nothing has changed.
  Status replace(const std::string& name, const std::function<bool(const Descriptor&)>& write) const;
  /// Small things, with a checksum of their own; at most 64 KiB.
  std::optional<std::vector<std::byte>> record(const std::string& name) const;
  Status keep_record(const std::string& name, std::span<const std::byte> bytes) const;
  /// Of the files named "<32 hex digits><suffix>", keeps those that were used last, up to both limits (the very last one always), and
  /// deletes the others; also what writers that died have left. What somebody has locked stays, whatever its size, and is not counted.
  /// Nothing else: the folder may hold files of others.
  void trim(std::string_view suffix, std::uint64_t max_bytes, std::size_t max_files) const;
  /// Bytes that this user may still write there; 0 if unknown.
  std::uint64_t free_bytes() const;

 private:
  std::filesystem::path path_;
};

}  // namespace troupe::base
