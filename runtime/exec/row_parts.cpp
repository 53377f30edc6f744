#include "runtime/exec/row_parts.h"

#include <algorithm>

namespace troupe::exec {
namespace {

void fill(RowPart& part, const StepRows& rows, std::size_t first, std::size_t end) {
  part.first = first;
  part.count = end - first;
  part.sequences.clear();
  part.wanted.clear();
  for (const kernels::SequenceRows& run : rows.sequences) {
    const std::size_t from = std::max(first, run.first_row), to = std::min(end, run.first_row + run.rows);
    if (from >= to) continue;
    const auto skipped = static_cast<std::uint32_t>(from - run.first_row);
    part.sequences.push_back({from - first, to - from, run.position + skipped, run.blocks});
  }
  for (const std::uint32_t row : rows.wanted)
    if (row >= first && row < end) part.wanted.push_back(row - static_cast<std::uint32_t>(first));
}

}  // namespace

void cut_rows(const StepRows& rows, std::vector<RowPart>& parts) {
  const bool cut = rows.split > 0 && rows.split < rows.count;
  parts.resize(cut ? 2 : 1);
  fill(parts[0], rows, 0, cut ? rows.split : rows.count);
  if (cut) fill(parts[1], rows, rows.split, rows.count);
}

}  // namespace troupe::exec
