#include "kernels/cpu/page_buffer.h"

#include <new>
#include <sys/mman.h>
#include <utility>

namespace troupe::kernels::cpu {
namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kArenaBuffer = std::size_t{64} << 20;  // pages are taken when touched, so the rest costs nothing

std::size_t piece_size(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
}  // namespace

PageBuffer::PageBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  const std::size_t unit = bytes >= kHugePage ? kHugePage : 4096;
  mapped_ = (bytes + unit - 1) / unit * unit;
  // One unit more, so that the buffer can begin on a whole one.
  void* p = mmap(nullptr, mapped_ + unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::uint8_t*>(p);
  const std::size_t before = (unit - reinterpret_cast<std::uintptr_t>(begin) % unit) % unit;
  if (before > 0) munmap(begin, before);
  data_ = begin + before;
  munmap(data_ + mapped_, unit - before);
  if (unit == kHugePage) madvise(data_, mapped_, MADV_HUGEPAGE);  // best effort
}

PageBuffer::~PageBuffer() {
  if (data_) munmap(data_, mapped_);
}

void PageBuffer::make_resident(std::size_t offset, std::size_t bytes) const {
  if (bytes == 0) return;
  const std::size_t unit = mapped_ % kHugePage == 0 ? kHugePage : 4096;
  const std::size_t begin = offset / unit * unit, end = (offset + bytes + unit - 1) / unit * unit;
  madvise(data_ + begin, end - begin, MADV_POPULATE_WRITE);
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), mapped_(std::exchange(other.mapped_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

PageArena::Piece PageArena::allocate(std::size_t bytes) {
  const std::size_t size = piece_size(bytes);
  if (!buffer_ || buffer_->size() - used_ < size) {
    buffer_ = std::make_shared<const PageBuffer>(size > kArenaBuffer ? size : kArenaBuffer);
    used_ = 0;
  }
  Piece piece{buffer_, buffer_->data() + used_};
  used_ += size;
  return piece;
}

void PageArena::give_back(Piece piece, std::size_t bytes) {
  if (piece.owner == buffer_ && piece.data + piece_size(bytes) == buffer_->data() + used_) used_ -= piece_size(bytes);
}

}  // namespace troupe::kernels::cpu
