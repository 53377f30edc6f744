// RowParts: the rows of a step, cut in parts (or not), each as a model sees them. Any row may begin a part: a sequence's run is cut with
// it, and so is the list of rows that are read at the end. Pure; compute thread only.
#pragma once
#include "kernels/backend.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::exec {

/// Rows of a step, in the order of the plan.
struct StepRows {
  std::span<const kernels::SequenceRows> sequences;
  std::size_t count = 0;
  std::span<const std::uint32_t> wanted;  // read behind the last segment; ascending
  std::span<const std::uint32_t> cuts;    // ForwardPlan::cuts
};

struct RowPart {
  std::size_t first = 0, count = 0;              // rows of the step
  std::vector<kernels::SequenceRows> sequences;  // first_row counts from the part's first
  std::vector<std::uint32_t> wanted;             // likewise
};

/// One part or more, none of them empty: a cut that begins none is passed over. `parts` is reused from step to step.
void cut_rows(const StepRows& rows, std::vector<RowPart>& parts);

}  // namespace troupe::exec
