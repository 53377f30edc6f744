// Measures peaks of a level with the loops of shared/roof.inl, and products through the public interface of a backend.
#include "kernels/roof.h"

#include "kernels/cpu/kernel_lists.h"
#include "kernels/cpu/page_buffer.h"
#include "kernels/cpu/thread_team.h"

#include <algorithm>
#include <cstring>

namespace troupe::kernels {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
constexpr std::size_t kCacheBytes = std::size_t{512} << 10;

/// Seconds of the fastest of the runs that fit into `time`; one at least, and one before that to warm up.
template <typename Run>
double best_seconds(std::chrono::milliseconds time, Run run) {
  run();
  double best = 1e30;
  const Clock::time_point end = Clock::now() + time;
  do {
    const Clock::time_point start = Clock::now();
    run();
    best = std::min(best, Seconds(Clock::now() - start).count());
  } while (Clock::now() < end);
  return best;
}

/// A sink and operands for each thread, on cache lines of its own: 16 floats to read, 16 to write.
struct alignas(64) Sink {
  float values[32];
};

class PeakMeter {
 public:
  PeakMeter(const cpu::RoofKernels& kernels, const PeakOptions& options)
      : kernels_(kernels), time_(options.time_each), team_({options.threads, true, 60}), sinks_(team_.size()) {
    for (Sink& sink : sinks_) std::fill(std::begin(sink.values), std::end(sink.values), 0.25F);
  }
  std::size_t threads() const { return team_.size(); }

  double giga_operations(double (*loop)(long, float*)) {
    if (loop == nullptr) return 0;
    long rounds = 1000;  // about a millisecond, found by doubling
    const auto run = [&](long n) { team_.run([&](const cpu::ThreadTeam::Member& member) { loop(n, sinks_[member.index()].values); }); };
    for (;; rounds *= 2) {
      const Clock::time_point start = Clock::now();
      run(rounds);
      if (Clock::now() - start > std::chrono::milliseconds(1) || rounds > (1L << 30)) break;
    }
    const double operations = loop(1, sinks_[0].values) * static_cast<double>(rounds) * static_cast<double>(threads());
    return operations / best_seconds(time_, [&] { run(rounds); }) / 1e9;
  }

  /// Each thread reads its part of `bytes` a thread, `times` times.
  double gigabytes(std::size_t bytes, int times) {
    const cpu::PageBuffer buffer(bytes * threads());
    std::memset(buffer.data(), 1, buffer.size());
    const auto read = [&](const cpu::ThreadTeam::Member& member) {
      for (int i = 0; i < times; ++i) kernels_.read(buffer.data() + member.index() * bytes, bytes, sinks_[member.index()].values);
    };
    const double total = static_cast<double>(bytes) * static_cast<double>(threads()) * times;
    return total / best_seconds(time_, [&] { team_.run(read); }) / 1e9;
  }

 private:
  const cpu::RoofKernels& kernels_;
  const std::chrono::milliseconds time_;
  cpu::ThreadTeam team_;
  std::vector<Sink> sinks_;
};

/// xorshift64*.
std::uint64_t next(std::uint64_t& state) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 2685821657736338717ULL;
}

/// Bytes of one row in a model file.
std::size_t row_bytes(StorageType type, std::size_t inputs) {
  switch (type) {
    case StorageType::kF32: return inputs * 4;
    case StorageType::kF16:
    case StorageType::kBF16: return inputs * 2;
    case StorageType::kQ8_0: return inputs / 32 * 34;
    case StorageType::kQ4_0: return inputs / 32 * 18;
    case StorageType::kQ4_1: return inputs / 32 * 20;
    case StorageType::kQ6_K: return inputs / 256 * 210;
  }
  return 0;
}

}  // namespace

Peaks measure_peaks(const PeakOptions& options) {
  const cpu::KernelSet kernels = cpu::kernels_for(cpu::choose_isa(options.isa));
  PeakMeter meter(kernels.roof, options);
  Peaks peaks;
  peaks.isa = cpu::isa_name(kernels.isa);
  peaks.threads = meter.threads();
  peaks.int8_gops = std::max(meter.giga_operations(kernels.roof.bytes), meter.giga_operations(kernels.roof.nibbles));
  peaks.fp32_gflops = meter.giga_operations(kernels.roof.fp32);
  peaks.bf16_gflops = meter.giga_operations(kernels.roof.bf16);
  peaks.l2_gbps = meter.gigabytes(kCacheBytes, 16);
  if (options.buffer_bytes != 0) peaks.dram_gbps = meter.gigabytes(options.buffer_bytes / meter.threads(), 1);
  return peaks;
}

ProductRate measure_product(Backend& backend, const ProductShape& shape, std::chrono::milliseconds time, std::size_t weight_bytes) {
  // Bytes 0x20...0x2f make small normal numbers of every type that may lie there: no run is slowed by denormals.
  std::uint64_t state = 88172645463325252ULL;
  std::vector<std::byte> file(row_bytes(shape.type, shape.inputs) * shape.outputs);
  for (std::byte& byte : file) byte = static_cast<std::byte>(0x20U | (next(state) >> 60));
  // Rows start on a cache line, and not a power of two apart: as an engine lays them out.
  const std::size_t x_stride = (shape.inputs + 15) / 16 * 16 + 16, y_stride = (shape.outputs + 15) / 16 * 16 + 16;
  const cpu::PageBuffer x(shape.rows * x_stride * sizeof(float)), y(shape.rows * y_stride * sizeof(float));
  const Rows input{reinterpret_cast<float*>(x.data()), shape.rows, shape.inputs, x_stride};
  const Rows output{reinterpret_cast<float*>(y.data()), shape.rows, shape.outputs, y_stride};
  for (std::size_t i = 0; i < shape.rows * x_stride; ++i) input.data[i] = static_cast<float>(next(state) >> 40) * 0x1p-23F - 1.0F;
  const MatrixSource source{shape.type, file.data(), shape.outputs, shape.inputs};
  std::vector<std::unique_ptr<Weight>> weights;
  do weights.push_back(backend.pack({&source, 1}));
  while (weights.size() * weights.front()->bytes() < weight_bytes);

  std::size_t turn = 0;
  std::vector<double> seconds;
  const auto run = [&] {
    backend.linear(*weights[turn++ % weights.size()], input, output);
    backend.synchronize();
  };
  run();
  const Clock::time_point end = Clock::now() + time;
  do {
    const Clock::time_point start = Clock::now();
    run();
    seconds.push_back(Seconds(Clock::now() - start).count());
  } while (Clock::now() < end);
  std::sort(seconds.begin(), seconds.end());
  ProductRate rate;
  rate.seconds = seconds[seconds.size() / 2];
  rate.best_seconds = seconds.front();
  const double operations = 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.outputs) * static_cast<double>(shape.inputs);
  rate.gops = operations / rate.seconds / 1e9;
  rate.gbps = static_cast<double>(weights.front()->bytes()) / rate.seconds / 1e9;
  return rate;
}

}  // namespace troupe::kernels
