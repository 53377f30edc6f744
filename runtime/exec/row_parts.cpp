#include "runtime/exec/row_parts.h"

#include "runtime/plan/forward_plan.h"

#include <algorithm>
#include <utility>

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
  std::size_t first = 0, number = 0;
  const auto end_part = [&](std::size_t end) {
    if (parts.size() <= number) parts.emplace_back();
    fill(parts[number++], rows, std::exchange(first, end), end);
  };
  for (const std::uint32_t cut : rows.cuts)
    if (cut > first && cut < rows.count && number + 1 < plan::kMostParts) end_part(cut);
  end_part(rows.count);
  parts.resize(number);
}

}  // namespace troupe::exec
