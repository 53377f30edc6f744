// The suite `step`: where each microsecond of a decode step goes, on two paths. "scheduled": scheduler, tier and shard on one thread.
// "served": the whole server in this process, with a local HTTP client. Each is followed by its bare twin: the shard alone at the
// same batch and the same mean context, so that the loss compares two neighbours in time. Main thread.
#pragma once
#include "cluster/bench/engine_runs.h"
#include "cluster/bench/http_scenarios.h"
#include "cluster/bench/report.h"
#include "cluster/bench/scheduled_replica.h"
#include "cluster/bench/thread_times.h"
#include "cluster/bench/turns.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::cluster::bench {

class StepSuite {
 public:
  /// `http` (null: no served path) must outlive the suite and be prepared; its server runs on the engine of `runs`.
  StepSuite(EngineRuns& runs, HttpScenarios* http, ThreadTimes threads, std::vector<std::uint32_t> batches, std::uint32_t context,
            std::uint32_t steps, std::uint32_t repetitions);
  std::string misfit() const;
  std::vector<Measurement> measurements();
  void report(Report& report) const;

 private:
  /// Of one repetition.
  struct Sample {
    double step_us = 0, bare_step_us = 0;
    std::map<std::string, StepPart> parts;  // us a step; of products also operations and bytes a step in gops and gigabytes_per_second
    std::vector<ThreadShare> threads;
  };
  using Key = std::pair<std::string, std::uint32_t>;  // path, batch

  void run_scheduled(std::uint32_t batch, SchedulingTimes& times, double& counted);
  bool measure_scheduled(std::uint32_t batch);
  bool measure_served(std::uint32_t batch);
  /// Fills step and parts from runs in which all `batch` sequences decode and nothing else; mean context of their rows.
  double take_runs(const std::vector<RunRecord>& records, std::uint32_t batch, Sample& sample) const;
  bool measure_bare(std::uint32_t batch, double context, Sample& sample);
  std::uint32_t overlap_steps(std::uint32_t batch) const;

  EngineRuns& runs_;
  HttpScenarios* http_;
  ThreadTimes threads_;
  std::vector<std::uint32_t> batches_;
  std::uint32_t context_, steps_, repetitions_;
  std::map<Key, std::vector<Sample>> samples_;
};

}  // namespace troupe::cluster::bench
