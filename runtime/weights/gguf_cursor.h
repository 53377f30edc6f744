// GgufCursor: a bounds-checked reading position in untrusted bytes that remembers the first failure. Internal to the GGUF reader.
// The bytes are the head of a file, or all of it.
// Invariant: nothing outside the bytes is ever read; after a failure every read fails.
#pragma once
#include "messages/error.h"
#include "runtime/weights/gguf_reader.h"

#include <cstring>
#include <optional>
#include <string>

namespace troupe::weights {

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> head, std::string file_name, std::uint64_t file_bytes)
      : head_(head), file_bytes_(file_bytes), file_name_(std::move(file_name)) {}

  std::size_t offset() const { return offset_; }
  std::uint64_t remaining() const { return file_bytes_ - offset_; }  // in the file
  std::uint64_t size() const { return file_bytes_; }
  /// Failed only because the head ends before the file does: try again with more of it.
  bool ran_out() const { return ran_out_; }
  const std::optional<Error>& error() const { return error_; }

  /// Records the first failure; always false, so that a check reads `return cursor.fail(...)`.
  bool fail(std::string_view field, std::size_t offset, std::string_view what, ErrorReason reason);

  /// A little-endian number (this code runs on little-endian machines only; see the static_assert in the source).
  template <class T>
  bool number(T& out, std::string_view field) {
    if (!need(sizeof(T), field)) return false;
    std::memcpy(&out, head_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }
  /// Length (8 bytes), then bytes. `limit` bounds the length.
  bool text(std::string_view& out, std::string_view field, std::uint64_t limit);
  bool skip(std::uint64_t bytes, std::string_view field);

 private:
  bool need(std::uint64_t bytes, std::string_view field);

  std::span<const std::byte> head_;
  std::uint64_t file_bytes_;
  std::string file_name_;
  std::size_t offset_ = 0;
  bool ran_out_ = false;
  std::optional<Error> error_;
};

}  // namespace troupe::weights
