#include "cluster/bench_command.h"

#include "cluster/bench_runs.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace troupe::cluster {
namespace {

struct Report {
  std::string shard;
  std::vector<BenchFigure> figures;
  std::vector<StepFigure> steps;
};

void print_table(const Report& report) {
  std::printf("%s\n\n%-8s %6s %6s %14s %14s %10s\n", report.shard.c_str(), "run", "batch", "rows", "best tok/s", "median tok/s", "step ms");
  for (const BenchFigure& figure : report.figures)
    std::printf("%-8s %6u %6u %14.1f %14.1f %10.3f\n", figure.name.c_str(), figure.batch, figure.rows, figure.best_per_second,
                figure.median_per_second, figure.step_ms);
  std::printf("\nscheduled decoding: share of a step outside the shard\n");
  for (const StepFigure& step : report.steps)
    std::printf("%-8s %6u %37s %10.3f   %.2f %%\n", "step", step.batch, "", step.step_ms, step.outside_percent);
}

void print_json(const Report& report, const BenchOptions& options) {
  nlohmann::ordered_json json;
  json["shard"] = report.shard;
  json["activations"] = options.shard.activations;
  json["kv_format"] = options.shard.kv_format;
  json["prefill_tokens"] = options.prefill_tokens;
  json["decode_steps"] = options.decode_steps;
  json["context_tokens"] = options.context_tokens;
  json["repetitions"] = options.repetitions;
  for (const BenchFigure& figure : report.figures)
    json["runs"].push_back({{"run", figure.name},
                            {"batch", figure.batch},
                            {"rows", figure.rows},
                            {"best_tokens_per_second", figure.best_per_second},
                            {"median_tokens_per_second", figure.median_per_second},
                            {"step_ms", figure.step_ms}});
  for (const StepFigure& step : report.steps)
    json["steps"].push_back({{"batch", step.batch}, {"step_ms", step.step_ms}, {"outside_shard_percent", step.outside_percent}});
  std::printf("%s\n", json.dump(2).c_str());
}

std::string bad_option(const BenchOptions& options) {
  constexpr std::uint32_t kMostBatch = 1024;
  if (options.prefill_tokens < 1 || options.decode_steps < 1 || options.context_tokens < 1 || options.repetitions < 1)
    return "prefill, decode steps, context and repetitions must be at least 1";
  if (options.batches.empty()) return "no batch size given";
  for (const std::uint32_t batch : options.batches)
    if (batch < 1 || batch > kMostBatch) return "batch sizes are 1..." + std::to_string(kMostBatch);
  return {};
}

}  // namespace

int run_bench(const BenchOptions& options) {
  const auto fail = [](const std::string& text) {
    std::fprintf(stderr, "troupe bench: %s\n", text.c_str());
    return 1;
  };
  if (const std::string bad = bad_option(options); !bad.empty()) return fail(bad);
  const auto engine = exec::make_shard_engine();
  const auto facts = engine->load(options.shard, {});
  if (!facts) return fail(facts.error().client_text);
  BenchRuns runs(*engine, *facts, options);
  if (const std::string misfit = runs.misfit(); !misfit.empty()) return fail(misfit);

  Report report{facts->description, {}, {}};
  report.figures.push_back(runs.prefill());
  for (const std::uint32_t batch : options.batches) report.figures.push_back(runs.decode(batch));
  for (const std::uint32_t batch : options.batches) report.steps.push_back(runs.scheduled(batch));
  if (options.json)
    print_json(report, options);
  else
    print_table(report);
  return 0;
}

}  // namespace troupe::cluster
