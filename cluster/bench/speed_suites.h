// The suites `prefill` and `decode`: tokens a second of the shard alone. Main thread.
#pragma once
#include "cluster/bench/engine_runs.h"
#include "cluster/bench/report.h"
#include "cluster/bench/turns.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace troupe::cluster::bench {

class PrefillSuite {
 public:
  PrefillSuite(EngineRuns& runs, std::vector<std::uint32_t> tokens, std::uint32_t repetitions);
  std::string misfit() const;
  std::vector<Measurement> measurements();
  void report(Report& report) const;

 private:
  EngineRuns& runs_;
  std::vector<std::uint32_t> tokens_;
  std::uint32_t repetitions_;
  std::map<std::uint32_t, std::vector<double>> seconds_;
};

class DecodeSuite {
 public:
  DecodeSuite(EngineRuns& runs, std::vector<std::uint32_t> batches, std::vector<std::uint32_t> contexts, std::uint32_t steps,
              std::uint32_t repetitions);
  std::string misfit() const;
  std::vector<Measurement> measurements();
  void report(Report& report) const;

 private:
  using Key = std::pair<std::uint32_t, std::uint32_t>;  // context, batch
  EngineRuns& runs_;
  std::vector<std::uint32_t> batches_, contexts_;
  std::uint32_t steps_, repetitions_;
  std::map<Key, std::vector<double>> seconds_;
};

/// Bytes of weights that one step of few rows reads.
double weight_bytes_of_step(const MeasuredEngine& engine);
/// Bytes of K and V of one position, over all layers.
double kv_bytes_of_position(const MeasuredEngine& engine);

}  // namespace troupe::cluster::bench
