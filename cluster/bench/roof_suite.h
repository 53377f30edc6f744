// The suite `roof`: limits of the machine measured on the spot, by instruction set and threads, and what the model's own products reach
// of them. Main thread.
#pragma once
#include "cluster/bench/engine_runs.h"
#include "cluster/bench/report.h"
#include "cluster/bench/turns.h"
#include "kernels/roof.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::cluster::bench {

class RoofSuite {
 public:
  /// `products`: the matrices of the file, one of each kind.
  struct Product {
    std::string name;
    kernels::StorageType type = kernels::StorageType::kF32;
    std::string format;
    std::size_t outputs = 0, inputs = 0, times = 1;  // times: how many the model has
  };
  RoofSuite(EngineRuns& runs, std::vector<Product> products, std::vector<std::uint32_t> rows, std::string activations, std::string isa,
            std::uint32_t repetitions);
  std::vector<Measurement> measurements();
  void report(Report& report) const;

 private:
  using PeakKey = std::pair<std::string, std::size_t>;  // level, threads
  std::size_t dram_buffer(const std::string& isa) const;
  void take_peaks(const kernels::Peaks& peaks);
  double product_peak(const Product& product) const;

  EngineRuns& runs_;
  std::vector<Product> products_;
  std::vector<std::uint32_t> rows_;
  std::string activations_, isa_;
  std::uint32_t repetitions_;
  std::vector<std::size_t> thread_counts_;
  std::vector<std::string> levels_;
  std::map<PeakKey, kernels::Peaks> peaks_;                                                   // best of the repetitions
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<kernels::ProductRate>> rates_;  // product, rows
};

/// One of each kind of the file's matrices, in the order of a layer.
std::vector<RoofSuite::Product> products_of(const std::string& model_path, const model::ModelConfig& config);
/// Storage types that hold most of the matrices' bytes: "Q4_1", "Q4_0 + Q6_K".
std::string weight_formats(const std::string& model_path);

}  // namespace troupe::cluster::bench
