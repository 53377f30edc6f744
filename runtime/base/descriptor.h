// Descriptor: a file descriptor with one owner, and reads and writes that are whole or fail. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace troupe::base {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();
  /// To another owner.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Fills `to` from byte `offset` on; false at the end of the file or on an error (errno).
bool read_at(const Descriptor& file, std::uint64_t offset, std::span<std::byte> to);
/// Writes all of `bytes`; false on an error (errno).
bool write_at(const Descriptor& file, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace troupe::base
