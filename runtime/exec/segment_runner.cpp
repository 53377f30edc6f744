#include "runtime/exec/segment_runner.h"

#include "runtime/plan/forward_plan.h"

#include <algorithm>

namespace troupe::exec {

using Clock = std::chrono::steady_clock;
static_assert(plan::kMostParts <= collective::Collective::kReduces);

SegmentRunner::SegmentRunner(model::Model& model, kernels::Backend& backend, const base::ShardPlace& place, FaultHook fault_hook,
                             StepTrace* trace)
    : model_(model),
      backend_(backend),
      place_(place),
      fault_hook_(std::move(fault_hook)),
      trace_(trace),
      hidden_(model.config().hidden),
      narrowed_(model.config().hidden),
      addend_(model.config().hidden) {}

kernels::Rows SegmentRunner::run(std::span<const TokenId> tokens, const StepRows& rows, kernels::KvCache& kv, StepNumber step,
                                 const std::atomic<bool>& abort) {
  begin(rows);
  for (std::size_t segment = 0; segment < model_.num_segments(); ++segment) {
    for (Part& part : parts_) {
      poll(step, segment, part.index == 0, abort);
      if (segment == 0) enter(part, tokens);
      finish_reduce(part);
      run_segment(part, segment, kv);
    }
  }
  for (Part& part : parts_) {
    finish_reduce(part);
    if (!place_.in_last_stage()) collective_->send_rows(part.hidden);
  }
  return place_.in_last_stage() ? narrowed_rows_ : kernels::Rows{};
}

void SegmentRunner::begin(const StepRows& rows) {
  cut_rows(rows, cut_);
  hidden_rows_ = hidden_.rows(rows.count);
  narrowed_rows_ = narrowed_.rows(rows.wanted.size());
  parts_.clear();
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < cut_.size(); ++i) {
    parts_.push_back({&cut_[i], i, wanted, hidden_rows_.slice(cut_[i].first, cut_[i].count), false});
    wanted += cut_[i].wanted.size();
  }
  reduced_.clear();
}

void SegmentRunner::enter(Part& part, std::span<const TokenId> tokens) {
  if (!place_.in_first_stage()) return collective_->receive_rows(part.hidden);
  const auto start = Clock::now();
  model_.embed(tokens.subspan(part.rows->first, part.rows->count), part.hidden);
  if (trace_ != nullptr) trace_->computed("embed", start, Clock::now());
}

void SegmentRunner::run_segment(Part& part, std::size_t segment, kernels::KvCache& kv) {
  const bool narrows = model_.narrows(segment);
  // Behind a segment that narrowed to nothing there is nothing to do.
  if (part.hidden.count == 0) return;
  const auto start = Clock::now();
  const kernels::Rows input = part.hidden;
  if (narrows) part.hidden = narrow(part);
  model::Chunk chunk{part.rows->sequences, input.count};
  if (narrows) chunk.wanted = part.rows->wanted;
  if (reduces()) {
    const kernels::Rows addend = addend_.rows(part.hidden.count);
    model_.run_segment(segment, chunk, input, kv, addend, kernels::Output::kStore);
    // Rows that narrow have other owners from here on, who do not know what the sums lost: there the chain begins anew.
    const bool begins = segment == 0 || narrows;
    collective_->start_reduce(part.index, addend, begins ? collective::Carry::kNothing : collective::Carry::kLoss);
    part.reducing = true;
    if (trace_ != nullptr) reduced_.push_back(name_of(segment, part));
  } else {
    // The addend is the sum, so it goes straight to the residual stream.
    model_.run_segment(segment, chunk, input, kv, part.hidden, kernels::Output::kAdd);
  }
  if (trace_ != nullptr) trace_->computed(name_of(segment, part), start, Clock::now());
}

/// The residual stream of the part's wanted rows alone.
kernels::Rows SegmentRunner::narrow(const Part& part) {
  const std::vector<std::uint32_t>& wanted = part.rows->wanted;
  const kernels::Rows to = narrowed_rows_.slice(part.wanted_before, wanted.size());
  backend_.synchronize();
  for (std::size_t i = 0; i < wanted.size(); ++i) std::copy_n(part.hidden.row(wanted[i]), to.width, to.row(i));
  return to;
}

void SegmentRunner::finish_reduce(Part& part) {
  if (!part.reducing) return;
  collective_->finish_reduce(part.index, part.hidden, kernels::Output::kAdd);
  part.reducing = false;
}

collective::WireTimes SegmentRunner::end_step(StepNumber step) {
  collective::WireTimes times;
  if (collective_ != nullptr) times = collective_->take_times();
  if (trace_ == nullptr) return times;
  for (std::size_t i = 0; i < std::min(times.spans.size(), reduced_.size()); ++i) trace_->reduced(reduced_[i], times.spans[i]);
  trace_->end_step(step.value);
  return times;
}

std::string SegmentRunner::name_of(std::size_t segment, const Part& part) const {
  std::string name = segment % 2 == 0 ? "attention " : "mlp ";
  if (parts_.size() > 1) name.append(1, static_cast<char>('A' + part.index)).append(1, ' ');
  return name + std::to_string(model_.slice().layers.first + segment / 2);
}

void SegmentRunner::poll(StepNumber step, std::size_t segment, bool first_part, const std::atomic<bool>& abort) const {
  if (fault_hook_ && first_part) fault_hook_(step.value, segment, abort);
  if (abort.load(std::memory_order_relaxed)) throw StepAborted();
}

}  // namespace troupe::exec
