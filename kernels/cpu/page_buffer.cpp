#include "kernels/cpu/page_buffer.h"

#include <new>
#include <sys/mman.h>
#include <utility>

namespace troupe::kernels::cpu {
namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}

PageBuffer::PageBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  const std::size_t unit = bytes >= kHugePage ? kHugePage : 4096;
  mapped_ = (bytes + unit - 1) / unit * unit;
  void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  if (unit == kHugePage) madvise(p, mapped_, MADV_HUGEPAGE);  // best effort
  data_ = static_cast<std::uint8_t*>(p);
}

PageBuffer::~PageBuffer() {
  if (data_) munmap(data_, mapped_);
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), mapped_(std::exchange(other.mapped_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

}  // namespace troupe::kernels::cpu
