#include "runtime/schedule/overlap_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace troupe::schedule {
namespace {
// First guesses at what the ranks did not measure, as shares of what a row costs.
constexpr double kBaseRows = 16;   // reading the weights once: a core multiplies some 20 rows in the time it reads their weights
constexpr double kPartRows = 8;    // a part more reads them, too, but beside more rows each
constexpr double kContext = 0.67;  // a position read, times the row's width: 4 operations a value in fp32 against 24 int8 ones a weight row
constexpr double kUsualHidden = 2048;
constexpr double kAttentionWork = 1.0 / 3;  // of a layer's products those before attention's reduce; the rest is the MLP's
constexpr double kMostUs = 1e8;             // a peer's number beyond it is no measurement
constexpr std::uint32_t kMostReduces = 4096;
// What is told of the wire is not exact: its reduces also wait for a peer that is late.
constexpr double kLateness = 0.05;                  // of a step's compute time
constexpr double kWireNoise = 0.25;                 // of the wire's time
constexpr std::array kSlownesses{0.75, 1.0, 1.33};  // that it may have, by what is believed of it
// Parts of these sizes are looked at: the shorter the first, the sooner the wire has something to do; the shorter the last, the less is
// left to wait for at the end.
constexpr std::array kGrowths{0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0};

LinearFit<6>::Vector usual_costs(double row_us, std::uint32_t hidden) {
  const double position_us = row_us * kContext / (hidden > 0 ? hidden : kUsualHidden);
  return {kBaseRows * row_us, row_us, row_us, position_us, position_us, kPartRows * row_us};
}

LinearFit<6>::Vector terms_of(const StepLoad& load, std::size_t parts) {
  const auto [step, decode_rows, prefill_tokens, decode_context, prefill_context] = load.terms();
  return {step, decode_rows, prefill_tokens, decode_context, prefill_context, static_cast<double>(parts - 1)};
}

double sane(double us, double least) { return std::isfinite(us) ? std::clamp(us, least, kMostUs) : least; }
}  // namespace

/// What the first rows of a plan cost, for any number of them.
class OverlapPolicy::RowLoads {
 public:
  explicit RowLoads(std::span<const PlannedRun> runs) : runs_(runs) {
    for (const PlannedRun& run : runs) {
      starts_.push_back(rows_);
      before_.push_back(all_);
      all_ = with(all_, run, run.rows);
      rows_ += run.rows;
    }
  }
  std::uint32_t rows() const { return rows_; }
  const StepLoad& all() const { return all_; }
  StepLoad before(std::uint32_t end) const {
    if (end == 0) return {};
    const auto run = static_cast<std::size_t>(std::lower_bound(starts_.begin(), starts_.end(), end) - starts_.begin()) - 1;
    return with(before_[run], runs_[run], end - starts_[run]);
  }

 private:
  static StepLoad with(const StepLoad& load, const PlannedRun& run, std::uint32_t rows) {
    return run.decode ? load.with_decode(run.position) : load.with_chunk(run.position, rows);
  }

  std::span<const PlannedRun> runs_;
  std::vector<std::uint32_t> starts_;  // first row of each run
  std::vector<StepLoad> before_;       // each run
  StepLoad all_;
  std::uint32_t rows_ = 0;
};

OverlapMode overlap_mode(std::string_view name) {
  if (name == "auto") return OverlapMode::kAuto;
  if (name == "off") return OverlapMode::kOff;
  if (name == "always") return OverlapMode::kAlways;
  throw std::invalid_argument("overlap must be auto, off or always");
}

OverlapPolicy::OverlapPolicy(OverlapMode mode) : mode_(mode), compute_(usual_costs(1, 0)) {}

void OverlapPolicy::enter_group(std::uint32_t ranks, const GroupSpeed& speed) {
  together_ = ranks > 1;
  if (speed.reduces == 0) return;
  reduces_ = std::min(speed.reduces, kMostReduces);
  steps_ = cut_steps_ = 0;
  const double row_us = sane(speed.compute_us, 1);
  compute_ = LinearFit<6>(usual_costs(row_us, speed.row_hidden));
  reduce_us_ = sane(speed.reduce_us, 1);
  row_wire_us_ = sane(speed.wire_us, row_us / 1000);
  wire_ = LinearFit<1>({1});
}

OverlapPolicy::Part OverlapPolicy::part_of(const StepLoad& load, std::size_t parts) const {
  auto terms = terms_of(load, parts);
  terms[0] /= static_cast<double>(parts);  // what is the step's is shared by all
  terms[5] /= static_cast<double>(parts);
  const auto& costs = compute_.costs();
  const double context_us = costs[3] * terms[3] + costs[4] * terms[4];
  const double products_us = compute_.predict(terms) - context_us;
  const double pairs = reduces_ / 2.0;
  Part part;
  part.attention_us = (products_us * kAttentionWork + context_us) / pairs;
  part.dense_us = products_us * (1 - kAttentionWork) / pairs;
  part.wire_us = wire_.predict({wire_us(1, (terms[1] + terms[2]) / reduces_)});
  return part;
}

double OverlapPolicy::predict_us(std::span<const PlannedRun> runs, std::span<const std::uint32_t> cuts) const {
  return predict_us(RowLoads(runs), cuts, 1);
}

double OverlapPolicy::predict_us(const RowLoads& loads, std::span<const std::uint32_t> cuts, double slowness) const {
  const StepLoad& all = loads.all();
  if (cuts.empty() || reduces_ == 0)
    return compute_.predict(terms_of(all, 1)) + (reduces_ == 0 ? 0.0 : reduces_ * part_of(all, 1).wire_us * slowness);
  std::array<Part, plan::kMostParts> parts;
  std::array<double, plan::kMostParts> reduced{};  // when a part's last reduce ended
  const std::size_t count = cuts.size() + 1;
  StepLoad before;
  for (std::size_t i = 0; i < count; ++i) {
    const StepLoad until = i < cuts.size() ? loads.before(cuts[i]) : all;
    parts[i] = part_of(until.without(before), count);
    before = until;
  }
  double core = 0, wire = 0;  // when each is free
  for (std::uint32_t i = 0; i < reduces_; ++i)
    for (std::size_t p = 0; p < count; ++p) {
      const double compute_us = i % 2 == 0 ? parts[p].attention_us : parts[p].dense_us;
      core = std::max(core, reduced[p]) + compute_us;
      reduced[p] = wire = std::max(wire, core) + parts[p].wire_us * slowness;
    }
  return wire;
}

std::vector<std::uint32_t> OverlapPolicy::cuts_of(std::span<const PlannedRun> runs, std::size_t parts, double growth,
                                                  std::uint32_t least_part) const {
  return cuts_of(RowLoads(runs), parts, growth, least_part);
}

std::vector<std::uint32_t> OverlapPolicy::cuts_of(const RowLoads& loads, std::size_t parts, double growth, std::uint32_t least_part) const {
  const std::uint32_t rows = loads.rows();
  parts = std::clamp<std::size_t>(rows / least_part, 1, parts);
  const auto cost_before = [&](std::uint32_t end) {
    auto terms = terms_of(loads.before(end), 1);
    terms[0] = 0;  // what is there whatever the rows
    return compute_.predict(terms);
  };
  double weight = 1, weights = 0;
  for (std::size_t i = 0; i < parts; ++i, weight *= growth) weights += weight;
  const double cost = cost_before(rows);
  std::vector<std::uint32_t> cuts;
  double share = 0;
  weight = 1 / weights;
  for (std::size_t i = 1; i < parts; ++i, weight *= growth) {
    share += weight;
    std::uint32_t low = (cuts.empty() ? 0 : cuts.back()) + least_part;  // the first row with as much before it
    std::uint32_t high = rows - static_cast<std::uint32_t>(parts - i) * least_part;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (cost_before(middle) < share * cost)
        low = middle + 1;
      else
        high = middle;
    }
    cuts.push_back(low);
  }
  return cuts;
}

OverlapChoice OverlapPolicy::choose(std::span<const PlannedRun> runs) const {
  if (!together_ || mode_ == OverlapMode::kOff) return {};
  if (mode_ == OverlapMode::kAlways) {
    const RowLoads loads(runs);
    std::vector<std::uint32_t> cuts = cuts_of(loads, 2, 1, 1);
    const double share = reduces_ == 0 ? 1.0 : std::min(predict_us(loads, cuts, 1) / std::max(predict_us(loads, {}, 1), 1.0), 1.0);
    return {std::move(cuts), share};
  }
  // Rows of streams alone are bound by weights: each part would read them anew.
  const bool prefill = std::any_of(runs.begin(), runs.end(), [](const PlannedRun& run) { return !run.decode; });
  if (reduces_ == 0 || !prefill || cut_steps_ >= kCutSteps) return {};
  const RowLoads loads(runs);
  const double plain_us = std::max(predict_us(loads, {}, 1), 1.0);
  OverlapChoice best;
  double least_us = std::numeric_limits<double>::infinity();
  for (std::size_t parts = 2; parts <= std::min<std::size_t>(plan::kMostParts, loads.rows() / kLeastPart); ++parts)
    for (const double growth : kGrowths) {
      std::vector<std::uint32_t> cuts = cuts_of(loads, parts, growth, kLeastPart);
      const double share = predict_us(loads, cuts, 1) / plain_us;
      if (share > 1 - least_gain()) continue;
      // Cuts that are the best for one speed of the wire alone are not good ones.
      double sum_us = 0;
      for (const double slowness : kSlownesses) sum_us += predict_us(loads, cuts, slowness);
      if (sum_us < least_us) best = {std::move(cuts), share};
      least_us = std::min(least_us, sum_us);
    }
  return best;
}

void OverlapPolicy::observe(std::span<const PlannedRun> runs, std::span<const std::uint32_t> cuts, const StepTimes& times) {
  if (!together_ || reduces_ == 0) return;
  const RowLoads loads(runs);
  const std::size_t parts = cuts.size() + 1;
  const auto compute = terms_of(loads.all(), parts);
  // Few rows tell nothing of how long many travel: networks take in some at once.
  if (loads.all().prefill_tokens >= 2 * kLeastPart) {
    steps_ = std::min(steps_ + 1, kFirstSteps);
    cut_steps_ = cuts.empty() ? 0 : cut_steps_ + 1;
    // Rows at once wait for all of the wire. Of rows in parts, a longer wait than was foreseen tells of a slower wire, a shorter one of a
    // faster, as far as it is not a peer that was late. For how long reduces were under way says less: they end soon on the rank that is
    // late itself.
    const LinearFit<1>::Vector wire{wire_us(reduces_ * static_cast<double>(parts), compute[1] + compute[2])};
    if (cuts.empty()) {
      wire_.correct(wire, times.wire_wait);
    } else {
      const double more_us = times.wire_wait - (predict_us(loads, cuts, 1) - compute_.predict(compute));
      const double late_us = kLateness * times.busy;
      wire_.correct(wire, std::max(wire_.predict(wire) + more_us - std::clamp(more_us, -late_us, late_us), times.wire_wait), kWireNoise);
    }
  }
  compute_.correct(compute, times.busy);
}

}  // namespace troupe::schedule
