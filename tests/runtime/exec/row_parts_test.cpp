#include "runtime/exec/row_parts.h"

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("Rows are cut at any row, with their runs and what is wanted of them", "[row_parts]") {
  const std::uint32_t blocks[] = {1, 2, 3};
  const kernels::SequenceRows runs[] = {{0, 1, 70, blocks}, {1, 1, 5, blocks}, {2, 6, 32, blocks}};
  const std::uint32_t wanted[] = {0, 1, 4, 7};
  std::vector<exec::RowPart> parts;
  for (std::size_t split = 0; split <= 9; ++split) {
    CAPTURE(split);
    exec::cut_rows({runs, 8, wanted, split}, parts);
    REQUIRE(parts.size() == (split > 0 && split < 8 ? 2 : 1));
    // Put together again, they say of each row what the whole says: its position, its table, whether it is wanted.
    std::vector<std::uint32_t> positions, rows;
    std::size_t first = 0;
    for (const exec::RowPart& part : parts) {
      CHECK(part.first == first);
      CHECK(part.count > 0);
      std::size_t next = 0;
      for (const kernels::SequenceRows& run : part.sequences) {
        CHECK(run.first_row == next);
        CHECK(run.rows > 0);
        CHECK(run.blocks == blocks);
        for (std::uint32_t i = 0; i < run.rows; ++i) positions.push_back(run.position + i);
        next += run.rows;
      }
      CHECK(next == part.count);
      for (const std::uint32_t row : part.wanted) rows.push_back(static_cast<std::uint32_t>(first) + row);
      first += part.count;
    }
    CHECK(positions == std::vector<std::uint32_t>{70, 5, 32, 33, 34, 35, 36, 37});
    CHECK(rows == std::vector<std::uint32_t>(std::begin(wanted), std::end(wanted)));
  }
}
