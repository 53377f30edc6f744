#include "runtime/exec/executor.h"

#include "runtime/collective/collective.h"
#include "runtime/exec/drawn_tokens.h"
#include "runtime/exec/kv_residency.h"
#include "runtime/exec/sampling_step.h"
#include "runtime/exec/segment_runner.h"
#include "runtime/exec/sequence_table.h"
#include "runtime/exec/step_trace.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

namespace troupe::exec {

namespace {

/// Transfers are advanced within long ops while this lives.
class PolledOps {
 public:
  PolledOps(kernels::Backend& backend, collective::Collective* collective) : backend_(backend), set_(collective != nullptr) {
    if (set_) backend_.set_poll([collective] { collective->poll(); });
  }
  ~PolledOps() {
    if (set_) backend_.set_poll({});
  }
  PolledOps(const PolledOps&) = delete;
  PolledOps& operator=(const PolledOps&) = delete;

 private:
  kernels::Backend& backend_;
  const bool set_;
};

std::uint32_t micros(std::chrono::nanoseconds time) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

}  // namespace

class Executor::State {
 public:
  State(model::Model& model, kernels::Backend& backend, ExecutorOptions options)
      : model_(model),
        backend_(backend),
        place_(options.place),
        poison_(options.poison_free_blocks),
        trace_(options.trace),
        runner_(model, backend, options.place, std::move(options.fault_hook), options.trace),
        sampling_(model, backend, options.place),
        sequences_(options.device_blocks, options.place.samples()) {
    const bool spread = options.kv_format == kernels::KvFormat::kInt8;
    const model::ModelSlice& slice = model.slice();
    kv_ = backend.make_kv_cache(
        {slice.layers.count, slice.kv_heads.count, model.config().head_dim, options.device_blocks, options.kv_format, spread});
    residency_.emplace(*kv_, KvResidency::usual_ahead(kernels::kv_block_bytes(kv_->shape())), backend.threads());
  }

  void enter_epoch(GroupEpoch epoch, collective::Collective* collective) {
    TROUPE_CHECK((collective != nullptr) == (place_.shape.ranks() > 1));
    use(collective);
    epoch_ = epoch;
    next_step_ = 1;
    sequences_.clear();
    drawn_.clear();
    if (!poison_) return;
    for (std::size_t block = 0; block < kv_->shape().blocks; ++block) kv_->poison_block(static_cast<std::uint32_t>(block));
  }

  void leave_epoch() {
    next_step_ = 0;
    use(nullptr);
  }

  plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) {
    const PolledOps polled(backend_, collective_);
    try {
      return run_step(plan, abort);
    } catch (const collective::Interrupted&) {
      throw StepAborted();
    }
  }

  kernels::KvCache& kv_cache() { return *kv_; }
  void watch_writes(std::function<void(BlockId)> about_to_write) { about_to_write_ = std::move(about_to_write); }
  void will_load(BlockId block) { residency_->used(block); }

 private:
  void use(collective::Collective* collective) {
    collective_ = collective;
    runner_.use(collective);
    sampling_.use(collective);
  }

  plan::ForwardResult run_step(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) {
    const auto start = std::chrono::steady_clock::now();
    if (plan.epoch != epoch_) throw PlanGap("plan of epoch " + std::to_string(plan.epoch.value));
    if (plan.step.value != next_step_)
      throw PlanGap("step " + std::to_string(plan.step.value) + " instead of " + std::to_string(next_step_));
    next_step_ = 0;  // a step that fails half-way leaves tables that nothing may continue

    plan::ForwardResult result;
    result.epoch = plan.epoch;
    result.step = plan.step;
    sequences_.apply(plan, [this](BlockId block) {
      residency_->used(block);
      will_write(block);
    });
    copy_blocks(plan);
    receive_old_tokens(plan.step);
    if (const std::size_t rows = build_rows(plan); rows > 0) {
      const kernels::Rows hidden = runner_.run(tokens_, {row_runs_, rows, wanted_, plan.cuts}, *kv_, plan.step, abort);
      if (place_.in_last_stage()) sample(plan, hidden, result);
      exchange_tokens(plan, result);
    }
    backend_.synchronize();
    if (collective_ != nullptr) collective_->finish_sends();
    if (abort.load(std::memory_order_relaxed)) throw StepAborted();
    next_step_ = plan.step.value + 1;
    result.compute_us = micros(std::chrono::steady_clock::now() - start);
    const collective::WireTimes wire = runner_.end_step(plan.step);
    result.wait_us = micros(wire.waited);
    result.reduce_wait_us = micros(wire.reduces_waited);
    result.wire_us = micros(under_way(wire.spans));
    return result;
  }

  void sample(const plan::ForwardPlan& plan, kernels::Rows hidden, plan::ForwardResult& result) {
    const auto start = std::chrono::steady_clock::now();
    sampling_.run(plan.samples, positions_, hidden, sequences_, result);
    if (trace_ != nullptr && !plan.samples.empty()) trace_->computed("sample", start, std::chrono::steady_clock::now());
  }

  /// The sampling rank tells what was drawn; the others note what they will be told.
  void exchange_tokens(const plan::ForwardPlan& plan, const plan::ForwardResult& result) {
    if (collective_ == nullptr) return;
    if (!place_.samples()) return drawn_.expect(plan, sequences_);
    drawn(plan, result, drawn_now_);
    if (!drawn_now_.empty()) collective_->send_tokens(drawn_now_);
  }

  /// Nothing piles up on ranks that need no ids: those of a step that can be in flight no more are there, or nearly.
  void receive_old_tokens(StepNumber step) {
    const std::uint64_t in_flight = place_.shape.stages + 1U;
    if (collective_ != nullptr && step.value > in_flight) drawn_.receive_until(step.value - in_flight, *collective_, sequences_);
  }

  static std::chrono::nanoseconds under_way(const std::vector<collective::WireSpan>& spans) {
    std::chrono::nanoseconds total{0};
    std::chrono::steady_clock::time_point until;
    for (const collective::WireSpan& span : spans) {  // in order of their starts
      if (span.end > until) total += span.end - std::max(span.begin, until);
      until = std::max(until, span.end);
    }
    return total;
  }

  void will_write(BlockId block) {
    if (about_to_write_) about_to_write_(block);
    if (poison_) kv_->poison_block(block);
  }

  void copy_blocks(const plan::ForwardPlan& plan) {
    for (const plan::BlockMove& move : plan.copies) {
      TROUPE_CHECK(move.from == Tier::kDevice && move.to == Tier::kDevice);
      TROUPE_CHECK(move.source < kv_->shape().blocks && move.target < kv_->shape().blocks && move.source != move.target);
      TROUPE_CHECK(move.tokens >= 1 && move.tokens <= kBlockTokens);
      will_write(move.target);
      kv_->copy_block(move.source, move.target, move.tokens);
    }
  }

  /// Token and position of every row, and the runs as kernels see them. Returns the number of rows.
  std::size_t build_rows(const plan::ForwardPlan& plan) {
    tokens_.clear();
    positions_.clear();
    row_runs_.clear();
    wanted_.clear();
    for (const plan::RowRun& run : plan.runs) add_run(plan, run);
    TROUPE_CHECK(tokens_.size() == plan.tokens.size());
    for (const plan::Sample& sample : plan.samples) {
      TROUPE_CHECK(sample.row < tokens_.size());
      TROUPE_CHECK(sample.token == plan::kDraw || sample.token < model_.config().vocabulary);
      sequences_.at(sample.sequence);
      wanted_.push_back(sample.row);
    }
    std::sort(wanted_.begin(), wanted_.end());
    wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
    return tokens_.size();
  }

  void add_run(const plan::ForwardPlan& plan, const plan::RowRun& run) {
    TROUPE_CHECK(run.rows > 0 && run.draft_rows == 0);
    const std::size_t first_row = tokens_.size();
    TROUPE_CHECK(run.rows <= plan.tokens.size() - first_row);
    Sequence& sequence = sequences_.at(run.sequence);
    const std::uint32_t position = run.position == plan::kNextPosition ? sequence.length : run.position;
    if (position != sequence.length)
      throw PlanGap("run at position " + std::to_string(position) + " of a sequence of " + std::to_string(sequence.length));
    TROUPE_CHECK(run.rows <= model_.config().context && position <= model_.config().context - run.rows);
    TROUPE_CHECK((position + run.rows - 1) / kBlockTokens < sequence.blocks.size());
    for (std::uint32_t i = 0; i < run.rows; ++i) {
      tokens_.push_back(resolve(plan.tokens[first_row + i], sequence));
      positions_.push_back(position + i);
    }
    sequence.length = position + run.rows;
    row_runs_.push_back({first_row, run.rows, position, sequence.blocks.data()});
  }

  /// In the first stage; what the others have for a last token is never read.
  TokenId resolve(TokenId token, const Sequence& sequence) {
    if (token == plan::kLastToken) {
      if (!place_.in_first_stage()) return 0;
      if (sequence.drawn_at != 0) drawn_.receive_until(sequence.drawn_at, *collective_, sequences_);
      if (!sequence.last) throw PlanGap("a row wants the last token of a sequence that has drawn none");
      return *sequence.last;
    }
    TROUPE_CHECK(token < model_.config().vocabulary);
    return token;
  }

  model::Model& model_;
  kernels::Backend& backend_;
  const base::ShardPlace place_;
  const bool poison_;
  StepTrace* const trace_;
  collective::Collective* collective_ = nullptr;  // of the epoch; null with one rank
  SegmentRunner runner_;
  SamplingStep sampling_;
  SequenceTable sequences_;
  DrawnTokens drawn_;
  std::unique_ptr<kernels::KvCache> kv_;
  std::optional<KvResidency> residency_;
  std::function<void(BlockId)> about_to_write_;  // may be empty
  GroupEpoch epoch_;
  std::uint64_t next_step_ = 0;  // 0 = no plan may run before the next epoch
  // Of the step that runs.
  std::vector<TokenId> tokens_;
  std::vector<std::uint32_t> positions_;
  std::vector<kernels::SequenceRows> row_runs_;
  std::vector<std::uint32_t> wanted_;     // rows with a sample, ascending
  std::vector<std::uint32_t> drawn_now_;  // ids, for the other ranks
};

Executor::Executor(model::Model& model, kernels::Backend& backend, ExecutorOptions options)
    : state_(std::make_unique<State>(model, backend, std::move(options))) {}
Executor::~Executor() = default;
void Executor::enter_epoch(GroupEpoch epoch, collective::Collective* collective) { state_->enter_epoch(epoch, collective); }
void Executor::leave_epoch() { state_->leave_epoch(); }
plan::ForwardResult Executor::run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) { return state_->run(plan, abort); }
std::size_t Executor::kv_bytes() const { return state_->kv_cache().bytes(); }
kernels::KvCache& Executor::kv_cache() { return state_->kv_cache(); }
void Executor::watch_writes(std::function<void(BlockId)> about_to_write) { state_->watch_writes(std::move(about_to_write)); }
void Executor::will_load(BlockId block) { state_->will_load(block); }

}  // namespace troupe::exec
