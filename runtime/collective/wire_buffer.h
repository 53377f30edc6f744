// WireBuffer: bytes on their way. Only grows, so that a step after the largest one allocates nothing; what it held is lost at each use.
// Part of a Collective; the compute thread.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

namespace troupe::collective {

class WireBuffer {
 public:
  std::span<std::byte> of(std::size_t size) {
    if (size > capacity_) {
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(size);
      capacity_ = size;
    }
    size_ = size;
    return bytes();
  }
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0, size_ = 0;
};

}  // namespace troupe::collective
