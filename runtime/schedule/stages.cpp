// Of plans where a replica has several stages: enough of them must be in flight to keep all stages at work, and each short enough that a
// stream, which gets a row only once its last token is known, does not wait too long for those ahead of it. With one stage nothing of this
// applies: every stream has a row in every plan.
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <cmath>

namespace troupe::schedule {

/// One more than stages, so that the first has its next plan at hand when it has done one.
std::uint32_t Scheduler::State::most_in_flight() const { return stages_ == 1 ? options_.plans_in_flight : stages_ + 1; }

std::uint32_t Scheduler::State::streams() const {
  return static_cast<std::uint32_t>(
      std::count_if(running_.begin(), running_.end(), [this](const Sequence* sequence) { return wants_decode_row(*sequence); }));
}

/// Streams are dealt evenly over as many plans as there are stages, their micro-batches. A further plan in flight takes none: it would make
/// the others smaller, and a row costs little beside the weights that each plan reads.
std::uint32_t Scheduler::State::most_decode_rows() const {
  if (stages_ == 1) return kNone32;
  const auto with_rows = std::count_if(in_flight_.begin(), in_flight_.end(), [](const auto& note) { return note.load.decode_rows > 0; });
  return static_cast<std::uint32_t>(with_rows) >= stages_ ? 0 : (streams() + stages_ - 1) / stages_;
}

/// Prompt rows of one plan. With P rows to do in chunks of r, each stage takes P / r times a step's base and P times a row's cost, and the
/// last stage waits for the others to do the first chunk: (stages - 1) r rows. The sum is least at r = sqrt(P base / (stages - 1) row).
std::uint32_t Scheduler::State::most_prefill_rows() const {
  if (stages_ == 1) return options_.token_budget;
  double prompts = 0;
  for (const Sequence* sequence : running_)
    if (sequence->prefilling()) prompts += sequence->prefill_end - sequence->prefill_begin;
  if (prompts == 0) return 0;
  const double row_us = std::max(cost_.prefill_token_us(), 0.1);
  const double best = std::sqrt(prompts * cost_.predict_us({}) / ((stages_ - 1) * row_us));
  const double least = std::min(std::max(options_.min_chunk, 2 * OverlapPolicy::kLeastPart), options_.token_budget);
  const double plans = std::ceil(prompts / std::clamp<double>(best, least, options_.token_budget));
  return static_cast<std::uint32_t>(std::ceil(prompts / plans));  // all alike: the longest decides
}

/// A plan that found stages empty took the time of each of them, one after the other; of the others only the last stage's shows.
double Scheduler::State::stage_us(const PlanInFlight& note, std::uint32_t compute_us) const {
  return static_cast<double>(compute_us) / (stages_ - std::min(note.ahead, stages_ - 1));
}

/// S - W - J of the stall promise: what one step may cost while streams run. At least 1 us, since 0 means unbound. A tenth is kept for what
/// no step's time shows: threads of the client and of other programs on the same cores. With stages, all plans in flight lie between two
/// tokens of a stream.
double Scheduler::State::stall_limit_us() const {
  const double gap_us = options_.stall_budget_ms * 900.0 - delivery_.cost_us();
  return std::max(stages_ == 1 ? gap_us : gap_us / most_in_flight(), 1.0);
}

}  // namespace troupe::schedule
