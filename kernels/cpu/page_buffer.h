// Zeroed memory in whole pages, on huge pages where the system gives them: 4 KiB pages halve the rate at which weights stream in, and
// cost scattered KV blocks more. Move-only owner; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe::kernels::cpu {

class PageBuffer {
 public:
  PageBuffer() = default;
  /// Throws std::bad_alloc. Pages are taken when first touched.
  explicit PageBuffer(std::size_t bytes);
  ~PageBuffer();
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  /// Takes the pages of [offset, offset + bytes) now; what they hold stays. Best effort (Linux 5.14 and later), on any thread.
  void make_resident(std::size_t offset, std::size_t bytes) const;
  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0, mapped_ = 0;
};

/// Hands out pieces of large buffers, so that small matrices share huge pages. A buffer lives as long as a piece of it.
/// Used by the thread that packs.
class PageArena {
 public:
  struct Piece {
    std::shared_ptr<const PageBuffer> owner;
    std::uint8_t* data = nullptr;
  };
  /// Zeroed, aligned to 64 bytes. Throws std::bad_alloc.
  Piece allocate(std::size_t bytes);
  /// Takes back the piece that was handed out last. Its bytes must be zero again.
  void give_back(Piece piece, std::size_t bytes);

 private:
  std::shared_ptr<const PageBuffer> buffer_;
  std::size_t used_ = 0;
};

}  // namespace troupe::kernels::cpu
