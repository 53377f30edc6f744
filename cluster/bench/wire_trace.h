// Traces of ranks that work together (runtime/exec/step_trace.h), read back: what a plan's segments and reduces took, for the bound, and
// one Chrome trace of all ranks, for people. Plain values; any thread.
#pragma once
#include "cluster/bench/overlap_bound.h"
#include "messages/error.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

struct TraceSpan {
  std::string name;  // "attention A 3", "mlp 3", "embed", "sample"
  std::uint32_t rank = 0;
  bool on_wire = false;
  double begin = 0, end = 0;  // seconds on the steady clock
};
/// Of all ranks, by step: compute in order of its begin, then what was on the wire.
using StepSpans = std::map<std::uint64_t, std::vector<TraceSpan>>;

/// Files of the ranks 0 ... ranks - 1. Error: one cannot be read, or is no trace.
Result<StepSpans> read_traces(const std::filesystem::path& path, std::uint32_t ranks);
/// Steps that began within a time, on rank 0.
StepSpans within(const StepSpans& steps, double begin, double end);

/// From a step whose rows were computed all at once: each reduce is on the wire from when its last rank offers its addend to when the last
/// rank has the sum; all else is compute.
std::vector<SegmentTimes> segments_of(const std::vector<TraceSpan>& step);
/// Seconds of a step on rank 0.
double duration(const std::vector<TraceSpan>& step);
/// Seconds between the steps of rank 0, in which it had nothing to compute.
double between_steps(const StepSpans& steps);

/// One file out of those of the ranks. Error: `to` cannot be written.
Status merge_traces(const StepSpans& steps, const std::filesystem::path& to);

}  // namespace troupe::cluster::bench
