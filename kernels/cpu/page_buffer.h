// Zeroed memory in whole pages, on huge pages where the system gives them: scattered 4 KiB pages cost weights and KV blocks 3-4x.
// Move-only owner; any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cpu {

class PageBuffer {
 public:
  PageBuffer() = default;
  /// Throws std::bad_alloc. Pages are taken when first touched.
  explicit PageBuffer(std::size_t bytes);
  ~PageBuffer();
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0, mapped_ = 0;
};

}  // namespace troupe::kernels::cpu
