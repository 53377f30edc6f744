// See step_suite.h.
#include "cluster/bench/step_suite.h"

#include "cluster/bench/speed_suites.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <thread>

namespace troupe::cluster::bench {
namespace {

/// Order and names of the rows that are not kernels.
constexpr const char* kTables = "tables, rows, tokens";
constexpr const char* kBetweenOps = "between kernels";
constexpr const char* kResults = "results";
constexpr const char* kPlan = "scheduler: results, next plan";
constexpr const char* kTier = "cache tier";
constexpr const char* kOutput = "hand-over of plans and tokens";
constexpr const char* kGap = "from step to step";
constexpr const char* kLoop = "loop of the measurement";

constexpr int kBareTries = 3;
constexpr std::chrono::milliseconds kTeamRecovery{1100};

bool full(const RunRecord& run, std::uint32_t batch) { return run.rows == batch && run.sequences == batch; }

}  // namespace

StepSuite::StepSuite(EngineRuns& runs, HttpScenarios* http, ThreadTimes threads, std::vector<std::uint32_t> batches, std::uint32_t context,
                     std::uint32_t steps, std::uint32_t repetitions)
    : runs_(runs),
      http_(http),
      threads_(std::move(threads)),
      batches_(std::move(batches)),
      context_(context),
      steps_(steps),
      repetitions_(repetitions) {}

/// Steps in which the last prompts are still read while the first sequences decode: chunks may be small.
std::uint32_t StepSuite::overlap_steps(std::uint32_t batch) const { return batch * context_ / 64 + 8; }

std::string StepSuite::misfit() const {
  for (const std::uint32_t batch : batches_) {
    // The chat template and the count of words may make a prompt longer than wanted.
    const std::string why = runs_.misfit(batch, 2 * context_ + 64 + steps_ + overlap_steps(batch));
    if (!why.empty()) return "--batch, --context-tokens and --decode-steps for suite step: " + why;
  }
  return {};
}

std::vector<Measurement> StepSuite::measurements() {
  std::vector<Measurement> out;
  for (const std::uint32_t batch : batches_) {
    const std::string of = std::to_string(batch);
    out.push_back({"scheduled steps of " + of, repetitions_, [this, batch] { return measure_scheduled(batch); }});
    if (http_ != nullptr) out.push_back({"served steps of " + of, repetitions_, [this, batch] { return measure_served(batch); }});
  }
  return out;
}

double StepSuite::take_runs(const std::vector<RunRecord>& records, std::uint32_t batch, Sample& sample) const {
  std::map<std::string, StepPart> sums;
  const auto add = [&](std::string_view name, StepPart::Kind kind, double seconds) -> StepPart& {
    StepPart& part = sums[std::string(name)];
    part.name = name;
    part.kind = kind;
    part.us += seconds * 1e6;
    return part;
  };
  double count = 0, wall = 0, kv_bytes = 0;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const RunRecord& run = records[i];
    if (!full(run, batch) || !full(records[i - 1], batch)) continue;
    ++count;
    wall += run.end - records[i - 1].end;
    double between = run.end - run.start - run.before_kernels - run.behind_kernels;
    for (std::size_t op = 0; op < kOps; ++op) {
      const OpTotal& total = run.ops[op];
      between -= total.seconds;
      if (total.seconds == 0) continue;
      const bool product = is_product(static_cast<Op>(op));
      StepPart& part = add(op_name(static_cast<Op>(op)), product ? StepPart::Kind::kProduct : StepPart::Kind::kOtherKernel, total.seconds);
      part.gops += total.operations * 1e-9;
      part.gigabytes_per_second += total.bytes * 1e-9;
    }
    kv_bytes += run.ops[static_cast<std::size_t>(Op::kAttention)].bytes;
    add(kTables, StepPart::Kind::kExecutor, run.before_kernels);
    add(kBetweenOps, StepPart::Kind::kExecutor, between);
    add(kResults, StepPart::Kind::kExecutor, run.behind_kernels);
    add(kGap, StepPart::Kind::kWaiting, run.start - records[i - 1].end);
  }
  if (count == 0) return 0;
  sample.step_us = wall * 1e6 / count;
  for (auto& [name, part] : sums) {
    if (part.us > 0) {  // sums of work over sums of time
      part.gops /= part.us * 1e-6;
      part.gigabytes_per_second /= part.us * 1e-6;
    }
    part.us /= count;
  }
  sample.parts = std::move(sums);
  return kv_bytes / count / batch / kv_bytes_of_position(runs_.engine());
}

bool StepSuite::measure_bare(std::uint32_t batch, double context, Sample& sample) {
  const auto first = static_cast<std::uint32_t>(std::lround(std::max(1.0, context - (steps_ + 1) / 2.0)));
  for (int tries = 0; tries < kBareTries; ++tries) {
    const auto seconds = runs_.decode(batch, first, steps_);
    if (!seconds) return false;
    const double us = *seconds * 1e6 / steps_;
    if (sample.bare_step_us == 0 || us < sample.bare_step_us) sample.bare_step_us = us;
    if (sample.bare_step_us < sample.step_us) return true;
    // Slower than with all the rest: the team still works with fewer threads, since a core was busy a moment ago. It grows again.
    std::this_thread::sleep_for(kTeamRecovery);
  }
  return true;
}

/// Until all sequences have ended or the run is stopped; `times` are sums over the `counted` steps in which all decode.
void StepSuite::run_scheduled(std::uint32_t batch, SchedulingTimes& times, double& counted) {
  ScheduledReplica replica(runs_.engine(), runs_.begin_epoch(), batch);
  for (std::uint32_t i = 0; i < batch; ++i) {
    schedule::AdmitSequence request;
    request.request = {i + 1};
    request.tokens = bench_prompt(i, context_);
    request.max_tokens = steps_ + batch * context_ / ScheduledReplica::kTokenBudget + 4;
    request.sampling.temperature = 0.0F;
    request.ignore_eos = true;
    replica.submit(std::move(request));
  }
  std::size_t rows = 0;
  for (bool was_full = false; !runs_.stop().load(std::memory_order_relaxed);) {
    replica.take_times();
    if (!replica.step(rows)) return;
    const SchedulingTimes step = replica.take_times();
    const bool is_full = rows == batch;
    if (is_full && was_full) {
      ++counted;
      times.plan += step.plan;
      times.tier += step.tier;
      times.output += step.output;
    }
    was_full = is_full;
  }
}

bool StepSuite::measure_scheduled(std::uint32_t batch) {
  MeasuredEngine& engine = runs_.engine();
  engine.record(true);
  SchedulingTimes times;
  double counted = 0;
  runs_.on_engine_thread([&] { run_scheduled(batch, times, counted); });
  const auto records = engine.take_records();
  engine.record(false);
  if (runs_.stop().load()) return false;
  Sample sample;
  const double context = take_runs(records, batch, sample);
  if (context == 0) return true;  // the sequences never ran all together
  // The gap is what the scheduler's parts say, and the little that is left.
  const double gap = sample.parts[kGap].us;
  sample.parts.erase(kGap);
  double told = 0;
  const auto add = [&](const char* name, double seconds) {
    StepPart part{name, StepPart::Kind::kScheduler, seconds * 1e6 / std::max(1.0, counted)};
    told += part.us;
    sample.parts[name] = part;
  };
  add(kPlan, times.plan);
  add(kTier, times.tier);
  add(kOutput, times.output);
  sample.parts[kLoop] = {kLoop, StepPart::Kind::kWaiting, std::max(0.0, gap - told)};
  if (!measure_bare(batch, context, sample)) return false;
  samples_[{"scheduled", batch}].push_back(std::move(sample));
  return true;
}

bool StepSuite::measure_served(std::uint32_t batch) {
  MeasuredEngine& engine = runs_.engine();
  http_->wake();
  engine.record(true);
  LoadClient client = http_->client(true);
  std::vector<bool> begun(batch, false);
  std::uint32_t running = 0;
  std::map<std::string, double> before, after;
  double from = 0, to = 0;
  std::string error;
  for (std::uint32_t i = 0; i < batch; ++i) {
    client.start(
        {{"user", http_->prompts().text(context_)}}, steps_ + overlap_steps(batch),
        [&](CallResult&& result) {
          if (!result.good()) error = result.error;
          if (to > 0) return;
          to = now_seconds();
          after = threads_.seconds();
        },
        [&, i](const CallResult& result) {
          if (begun[i] || result.stamps.size() < 2) return;
          begun[i] = true;
          if (++running < batch) return;
          from = now_seconds();
          before = threads_.seconds();
        });
  }
  client.run();
  const auto records = engine.take_records();
  engine.record(false);
  if (!error.empty()) return !runs_.stop().load();
  Sample sample;
  const double context = take_runs(records, batch, sample);
  if (context == 0) return true;
  const auto steps = std::count_if(records.begin(), records.end(), [&](const RunRecord& run) { return run.end >= from && run.end <= to; });
  if (from > 0) sample.threads = thread_shares(before, after, static_cast<double>(steps));
  if (!measure_bare(batch, context, sample)) return false;
  samples_[{"served", batch}].push_back(std::move(sample));
  return true;
}

void StepSuite::report(Report& report) const {
  for (const std::uint32_t batch : batches_)
    for (const char* path : {"scheduled", "served"})
      if (!samples_.contains({path, batch}) && (http_ != nullptr || path == std::string_view("scheduled")))
        report.notes.push_back(std::string("no figure for ") + path + " steps of " + std::to_string(batch) +
                               ": interrupted, or they never decoded all together (more --decode-steps)");
  for (const auto& [key, samples] : samples_) {
    std::vector<const Sample*> order;
    std::vector<double> ratios;
    for (const Sample& sample : samples) {
      order.push_back(&sample);
      ratios.push_back(sample.bare_step_us / sample.step_us);
    }
    std::sort(order.begin(), order.end(), [](const Sample* a, const Sample* b) { return a->step_us < b->step_us; });
    const Sample& middle = *order[order.size() / 2];  // one repetition as it was, so that its parts make up its step
    StepFigure figure{key.first, key.second, context_, middle.step_us, middle.step_us * median(ratios), {}, middle.threads};
    const auto take = [&](std::string_view name) {
      if (const auto found = middle.parts.find(std::string(name)); found != middle.parts.end()) figure.parts.push_back(found->second);
    };
    for (std::size_t op = 0; op < kOps; ++op) take(op_name(static_cast<Op>(op)));
    for (const char* name : {kTables, kBetweenOps, kResults, kPlan, kTier, kOutput, kGap, kLoop}) take(name);
    report.steps.push_back(std::move(figure));
  }
}

}  // namespace troupe::cluster::bench
