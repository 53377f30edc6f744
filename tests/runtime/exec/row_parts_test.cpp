#include "runtime/exec/row_parts.h"

#include "runtime/plan/forward_plan.h"

#include <catch2/catch.hpp>

#include <set>

using namespace troupe;

TEST_CASE("Rows are cut at any row, with their runs and what is wanted of them", "[row_parts]") {
  const std::uint32_t blocks[] = {1, 2, 3};
  const kernels::SequenceRows runs[] = {{0, 1, 70, blocks}, {1, 1, 5, blocks}, {2, 6, 32, blocks}};
  const std::uint32_t wanted[] = {0, 1, 4, 7};
  std::vector<exec::RowPart> parts;
  // Every list of up to three cuts, those that begin no part among them.
  std::vector<std::vector<std::uint32_t>> lists{{}};
  for (std::size_t i = 0; i < lists.size(); ++i)
    for (std::uint32_t cut = 0; cut <= 9 && lists[i].size() < 3; ++cut) {
      lists.push_back(lists[i]);
      lists.back().push_back(cut);
    }
  REQUIRE(lists.size() == 1111);
  lists.push_back({1, 2, 3, 4, 5});  // more than there may be
  for (const std::vector<std::uint32_t>& cuts : lists) {
    CAPTURE(cuts);
    std::set<std::size_t> begins{0};
    for (const std::uint32_t cut : cuts)
      if (cut > *begins.rbegin() && cut < 8 && begins.size() < plan::kMostParts) begins.insert(cut);
    exec::cut_rows({runs, 8, wanted, cuts}, parts);
    REQUIRE(parts.size() == begins.size());
    // Put together again, they say of each row what the whole says: its position, its table, whether it is wanted.
    std::vector<std::uint32_t> positions, rows;
    std::size_t first = 0;
    for (const exec::RowPart& part : parts) {
      CHECK(part.first == first);
      CHECK(begins.contains(part.first));
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
