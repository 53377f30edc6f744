#include "runtime/weights/matrix_slice.h"

#include "messages/error.h"
#include "runtime/weights/format_table.h"

#include <algorithm>

namespace troupe::weights {
namespace {

std::size_t bytes_of(kernels::StorageType type, std::size_t elements) {
  const Format& format = format_of(type);
  TROUPE_CHECK(elements % format.block_elements == 0);
  return format.bytes_of(elements);
}

}  // namespace

kernels::MatrixSource slice_outputs(kernels::MatrixSource whole, std::size_t first, std::size_t count) {
  TROUPE_CHECK(whole.read && first <= whole.rows && count <= whole.rows - first);
  const std::size_t skipped = first * bytes_of(whole.type, whole.cols);
  kernels::MatrixSource part{whole.type, nullptr, count, whole.cols};
  part.read = [read = std::move(whole.read), skipped](std::size_t offset, std::span<std::byte> to) { return read(skipped + offset, to); };
  return part;
}

kernels::MatrixSource slice_inputs(kernels::MatrixSource whole, std::size_t first, std::size_t count) {
  TROUPE_CHECK(whole.read && count > 0 && first <= whole.cols && count <= whole.cols - first);
  const std::size_t pitch = bytes_of(whole.type, whole.cols), skipped = bytes_of(whole.type, first), width = bytes_of(whole.type, count);
  kernels::MatrixSource part{whole.type, nullptr, whole.rows, count};
  part.read = [read = std::move(whole.read), pitch, skipped, width](std::size_t offset, std::span<std::byte> to) {
    while (!to.empty()) {
      const std::size_t row = offset / width, within = offset % width, piece = std::min(to.size(), width - within);
      if (!read(row * pitch + skipped + within, to.first(piece))) return false;
      offset += piece;
      to = to.subspan(piece);
    }
    return true;
  };
  return part;
}

}  // namespace troupe::weights
