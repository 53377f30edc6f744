#include "runtime/schedule/overlap_policy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::schedule {
namespace {
// First guesses at what the ranks did not measure, as shares of what a row costs.
constexpr double kBaseRows = 16;   // reading the weights once: a core multiplies some 20 rows in the time it reads their weights
constexpr double kContext = 0.67;  // a position read, times the row's width: 4 operations a value in fp32 against 24 int8 ones a weight row
constexpr double kUsualHidden = 2048;
constexpr double kAttentionWork = 1.0 / 3;  // of a layer's products those before attention's reduce; the rest is the MLP's
constexpr double kMostUs = 1e8;             // a peer's number beyond it is no measurement
constexpr std::uint32_t kMostReduces = 4096;
constexpr int kTries = 6, kTryPart = 32;  // splits looked at on each side of the balanced one, each a 32nd of the rows apart

LinearFit<5>::Vector usual_costs(double row_us, std::uint32_t hidden) {
  const double position_us = row_us * kContext / (hidden > 0 ? hidden : kUsualHidden);
  return {kBaseRows * row_us, row_us, row_us, position_us, position_us};
}

double sane(double us, double least) { return std::isfinite(us) ? std::clamp(us, least, kMostUs) : least; }

/// Of rows [begin, end) of a plan.
StepLoad load_between(std::span<const PlannedRun> runs, std::uint32_t begin, std::uint32_t end) {
  StepLoad load;
  std::uint32_t row = 0;
  for (const PlannedRun& run : runs) {
    const std::uint32_t from = std::max(begin, row), to = std::min(end, row + run.rows);
    if (from < to) load = run.decode ? load.with_decode(run.position) : load.with_chunk(run.position + from - row, to - from);
    row += run.rows;
  }
  return load;
}

std::uint32_t count_rows(std::span<const PlannedRun> runs) {
  std::uint32_t rows = 0;
  for (const PlannedRun& run : runs) rows += run.rows;
  return rows;
}
}  // namespace

OverlapMode overlap_mode(std::string_view name) {
  if (name == "auto") return OverlapMode::kAuto;
  if (name == "off") return OverlapMode::kOff;
  if (name == "always") return OverlapMode::kAlways;
  throw std::invalid_argument("overlap must be auto, off or always");
}

OverlapPolicy::OverlapPolicy(OverlapMode mode) : mode_(mode), compute_(usual_costs(1, 0)), wire_({1, 1}) {}

void OverlapPolicy::enter_group(std::uint32_t ranks, const GroupSpeed& speed) {
  together_ = ranks > 1;
  if (speed.reduces == 0) return;
  reduces_ = std::min(speed.reduces, kMostReduces);
  const double row_us = sane(speed.compute_us, 1);
  compute_ = LinearFit<5>(usual_costs(row_us, speed.row_hidden));
  wire_ = LinearFit<2>({sane(speed.reduce_us, 1), sane(speed.wire_us, row_us / 1000)});
}

OverlapPolicy::Part OverlapPolicy::part_of(const StepLoad& load) const {
  const auto terms = load.terms();
  const auto& costs = compute_.costs();
  const double context_us = costs[3] * terms[3] + costs[4] * terms[4];
  const double products_us = compute_.predict(terms) - context_us;
  const double pairs = reduces_ / 2.0;
  Part part;
  part.attention_us = (products_us * kAttentionWork + context_us) / pairs;
  part.dense_us = products_us * (1 - kAttentionWork) / pairs;
  part.wire_us = wire_.predict({1.0, (terms[1] + terms[2]) / reduces_});
  return part;
}

double OverlapPolicy::predict_us(std::span<const PlannedRun> runs, std::uint32_t split) const {
  const std::uint32_t rows = count_rows(runs);
  if (split == 0 || reduces_ == 0) {
    const StepLoad load = load_between(runs, 0, rows);
    return compute_.predict(load.terms()) + (reduces_ == 0 ? 0.0 : reduces_ * part_of(load).wire_us);
  }
  const Part a = part_of(load_between(runs, 0, split)), b = part_of(load_between(runs, split, rows));
  double core = 0, wire = 0, a_reduced = 0, b_reduced = 0;  // when each is free; when a part's last reduce ended
  for (std::uint32_t i = 0; i < reduces_; ++i) {
    const bool attention = i % 2 == 0;
    core = std::max(core, a_reduced) + (attention ? a.attention_us : a.dense_us) * (1 + kSplitCost);
    a_reduced = wire = std::max(wire, core) + a.wire_us;
    core = std::max(core, b_reduced) + (attention ? b.attention_us : b.dense_us) * (1 + kSplitCost);
    b_reduced = wire = std::max(wire, core) + b.wire_us;
  }
  return wire;
}

std::uint32_t OverlapPolicy::balanced_split(std::span<const PlannedRun> runs) const {
  const std::uint32_t rows = count_rows(runs);
  std::uint32_t low = 1, high = rows - 1;  // the first row from which on the first part has the more
  while (low < high) {
    const std::uint32_t split = low + (high - low) / 2;
    if (compute_.predict(load_between(runs, 0, split).terms()) < compute_.predict(load_between(runs, split, rows).terms()))
      low = split + 1;
    else
      high = split;
  }
  return low;
}

OverlapChoice OverlapPolicy::choose(std::span<const PlannedRun> runs) const {
  if (!together_ || mode_ == OverlapMode::kOff) return {};
  const std::uint32_t rows = count_rows(runs);
  if (rows < 2) return {};
  const double plain_us = std::max(predict_us(runs, 0), 1.0);
  if (mode_ == OverlapMode::kAlways) {
    const std::uint32_t split = balanced_split(runs);
    return {split, reduces_ == 0 ? 1.0 : std::min(predict_us(runs, split) / plain_us, 1.0)};
  }
  // Rows of streams alone are bound by weights: two parts would read them twice.
  const bool prefill = std::any_of(runs.begin(), runs.end(), [](const PlannedRun& run) { return !run.decode; });
  if (reduces_ == 0 || !prefill || rows < 2 * kLeastPart) return {};
  // Balanced parts are best where compute takes the longer; where the wire does, a shorter first part lets it begin sooner.
  const int balanced = static_cast<int>(balanced_split(runs)), least = kLeastPart, most = static_cast<int>(rows) - least;
  OverlapChoice best;
  for (int i = -kTries; i <= kTries; ++i) {
    const auto split = static_cast<std::uint32_t>(std::clamp(balanced + i * static_cast<int>(rows) / kTryPart, least, most));
    const double share = predict_us(runs, split) / plain_us;
    if (share <= 1 - kLeastGain && share < best.share) best = {split, share};
  }
  return best;
}

void OverlapPolicy::observe(std::span<const PlannedRun> runs, std::uint32_t split, double busy_us, double wire_us) {
  if (!together_ || reduces_ == 0) return;
  const std::uint32_t rows = count_rows(runs);
  auto terms = load_between(runs, 0, rows).terms();
  if (split > 0) {
    terms[0] = 2;  // two parts, each with the weights to read
    busy_us /= 1 + kSplitCost;
  }
  compute_.correct(terms, busy_us);
  wire_.correct({reduces_ * terms[0], static_cast<double>(rows)}, wire_us);
}

}  // namespace troupe::schedule
