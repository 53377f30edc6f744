// Parts of a matrix: the same bytes as cut by hand, and no byte of the rest is read.
#include "runtime/weights/matrix_slice.h"

#include "messages/error.h"
#include "runtime/weights/format_table.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

using namespace troupe;

namespace {

/// A matrix in memory whose reader counts how often each byte is read.
struct CountedMatrix {
  std::vector<std::byte> bytes;
  std::vector<int> reads;
  kernels::MatrixSource source;
  std::size_t pitch = 0;

  CountedMatrix(kernels::StorageType type, std::size_t rows, std::size_t cols) {
    const weights::Format& format = weights::format_of(type);
    pitch = format.bytes_of(cols);
    bytes.resize(rows * pitch);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 % 251);
    reads.assign(bytes.size(), 0);
    source = {type, nullptr, rows, cols, [this](std::size_t offset, std::span<std::byte> to) {
                if (offset > bytes.size() || to.size() > bytes.size() - offset) return false;
                std::memcpy(to.data(), bytes.data() + offset, to.size());
                for (std::size_t i = 0; i < to.size(); ++i) ++reads[offset + i];
                return true;
              }};
  }
};

std::vector<std::byte> read_all(const kernels::MatrixSource& source, std::size_t piece) {
  std::vector<std::byte> out(weights::format_of(source.type).bytes_of(source.rows * source.cols));
  for (std::size_t at = 0; at < out.size(); at += piece)
    REQUIRE(source.read(at, std::span(out).subspan(at, std::min(piece, out.size() - at))));
  return out;
}

}  // namespace

TEST_CASE("A range of outputs is a run of bytes, a range of inputs a piece of each row", "[matrix_slice]") {
  for (const kernels::StorageType type : kernels::kAllStorageTypes) {
    const weights::Format& format = weights::format_of(type);
    constexpr std::size_t kRows = 7, kBlocks = 5;
    const std::size_t block = format.block_elements;
    for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, format.block_bytes * 3, std::size_t{100000}}) {
      CAPTURE(format.name, piece);
      CountedMatrix outputs(type, kRows, kBlocks * block);
      const auto some_rows = weights::slice_outputs(outputs.source, 2, 3);
      CHECK(some_rows.rows == 3);
      CHECK(some_rows.cols == kBlocks * block);
      const auto got = read_all(some_rows, piece);
      CHECK(got == std::vector<std::byte>(outputs.bytes.begin() + static_cast<std::ptrdiff_t>(2 * outputs.pitch),
                                          outputs.bytes.begin() + static_cast<std::ptrdiff_t>(5 * outputs.pitch)));
      for (std::size_t i = 0; i < outputs.reads.size(); ++i)
        if (outputs.reads[i] != (i / outputs.pitch >= 2 && i / outputs.pitch < 5 ? 1 : 0)) FAIL_CHECK("byte " << i);

      CountedMatrix inputs(type, kRows, kBlocks * block);
      const auto some_columns = weights::slice_inputs(inputs.source, block, 3 * block);
      CHECK(some_columns.rows == kRows);
      CHECK(some_columns.cols == 3 * block);
      const std::size_t first = format.block_bytes, end = 4 * format.block_bytes;
      std::vector<std::byte> wanted;
      for (std::size_t row = 0; row < kRows; ++row)
        for (std::size_t i = first; i < end; ++i) wanted.push_back(inputs.bytes[row * inputs.pitch + i]);
      CHECK(read_all(some_columns, piece) == wanted);
      for (std::size_t i = 0; i < inputs.reads.size(); ++i)
        if (inputs.reads[i] != (i % inputs.pitch >= first && i % inputs.pitch < end ? 1 : 0)) FAIL_CHECK("byte " << i);
    }
  }
}

TEST_CASE("A part of a part, and parts that are not there", "[matrix_slice]") {
  CountedMatrix whole(kernels::StorageType::kQ8_0, 6, 128);
  const auto part = weights::slice_inputs(weights::slice_outputs(whole.source, 1, 4), 32, 64);
  const auto got = read_all(part, 10);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t i = 0; i < 68; ++i) REQUIRE(got[row * 68 + i] == whole.bytes[(row + 1) * whole.pitch + 34 + i]);
  std::byte byte{};
  CHECK_FALSE(weights::slice_inputs(whole.source, 32, 64).read(6 * 68, {&byte, 1}));  // behind the last row
  CHECK_THROWS_AS(weights::slice_inputs(whole.source, 16, 32), InvariantViolation);   // within a block
  CHECK_THROWS_AS(weights::slice_inputs(whole.source, 96, 64), InvariantViolation);
  CHECK_THROWS_AS(weights::slice_outputs(whole.source, 5, 2), InvariantViolation);
}
