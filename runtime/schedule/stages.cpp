// Of plans where a replica has several stages: enough of them must be in flight to keep all stages at work, and each short enough that a
// stream, which gets a row only once its last token is known, does not wait too long for those ahead of it. With one stage nothing of this
// applies: every stream has a row in every plan.
#include "runtime/schedule/scheduler_state.h"

#include <algorithm>
#include <cmath>

namespace troupe::schedule {

/// One more than stages, so that the first has its next plan at hand when it has done one. Not while streams run: the further plan would
/// lie between two tokens of each.
std::uint32_t Scheduler::State::most_in_flight() const {
  if (stages_ == 1) return options_.plans_in_flight;
  return streams() > 0 ? stages_ : stages_ + 1;
}

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
  const double plans = std::max(std::round(prompts / std::max(best, least)), std::ceil(prompts / options_.token_budget));
  return static_cast<std::uint32_t>(std::ceil(prompts / plans));  // all alike: the longest decides
}

/// Time of a plan in one stage, of what the last stage took from the plan before to this one. Where each plan takes all stages the same
/// time, they are done after the sum of their times and (stages - 1) times the longest; so one that is longer than all ahead of it, by d,
/// makes the last stage wait (stages - 1) d.
double Scheduler::State::stage_us(const PlanInFlight& note, std::uint32_t compute_us) const {
  const double longer_us = std::max(compute_us - note.ahead_us, 0.0);
  return compute_us - longer_us * (stages_ - 1) / stages_;
}

/// S - W - J of the stall promise: what one step may cost while streams run. At least 1 us, since 0 means unbound. A tenth is kept for what
/// no step's time shows: threads of the client and of other programs on the same cores. With stages, a stream's row has up to stages - 1
/// plans ahead, and may have to go through stages that are empty but for them (as stage_us() says).
double Scheduler::State::stall_limit_us() const {
  const double gap_us = options_.stall_budget_ms * 900.0 - delivery_.cost_us();
  return std::max(stages_ == 1 ? gap_us : gap_us / (2 * stages_ - 1), 1.0);
}

}  // namespace troupe::schedule
