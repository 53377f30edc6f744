// What the machine can do at most, measured on the spot, and what a packed product reaches of it.
// For benchmarks: nothing else calls it. Blocks the caller for the time it is given; the caller keeps other work off the cores.
#pragma once
#include "kernels/backend.h"

#include <chrono>

namespace troupe::kernels {

/// Best of several short runs, over all threads together. A multiplication and an addition are two operations.
struct Peaks {
  std::string isa;
  std::size_t threads = 0;
  double int8_gops = 0;  // exact 8-bit dot products, registers only
  double fp32_gflops = 0;
  double bf16_gflops = 0;  // 0: the level has no such instruction
  double l2_gbps = 0;      // each thread reads 512 KiB of its own again and again
  double dram_gbps = 0;    // each thread reads its part of a buffer beyond all caches, in order
};
struct PeakOptions {
  std::size_t threads = 0;  // 0 = as CpuOptions
  std::string isa;          // "" = best
  std::chrono::milliseconds time_each{60};
  std::size_t buffer_bytes = std::size_t{1} << 30;  // of the DRAM figure; 0 leaves it out
};
/// Throws std::invalid_argument for an ISA that this machine lacks, std::bad_alloc for a buffer that it cannot hold.
Peaks measure_peaks(const PeakOptions& options);

/// One matrix product of `rows` inputs rows with outputs x inputs weights, as a model file holds them.
struct ProductShape {
  StorageType type = StorageType::kQ4_1;
  std::size_t outputs = 0, inputs = 0, rows = 1;
};
/// Of the median run. The quantization of the inputs is part of a product.
struct ProductRate {
  double seconds = 0, best_seconds = 0;
  double gops = 0;  // 2 * rows * outputs * inputs
  double gbps = 0;  // bytes of packed weights
};
/// Random weights and inputs. The weights are packed as often as it takes to fill `weight_bytes` (once if that is 0) and used in turn:
/// more than the caches hold gives the rate of weights that stream from memory.
ProductRate measure_product(Backend& backend, const ProductShape& shape, std::chrono::milliseconds time, std::size_t weight_bytes = 0);

}  // namespace troupe::kernels
