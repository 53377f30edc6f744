// Share of the measured peak that matrix products reach: rows x format x shape. No test: figures to look at while a kernel changes.
//   matmul_bench [--isa LEVEL] [--threads N] [--act group|token|fp32] [--weights file|int8-channel] [--types q4_1,q8_0] [--rows
//   1,4,16,64,256] [--shapes 576x576,...]
//                [--ms MS] [--stream GIB]    (stream: weights beyond the caches, for GB/s)
#include "kernels/roof.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

using namespace troupe::kernels;

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

constexpr struct {
  const char* name;
  StorageType type;
} kTypes[] = {{"q4_0", StorageType::kQ4_0}, {"q4_1", StorageType::kQ4_1}, {"q8_0", StorageType::kQ8_0}, {"q6_k", StorageType::kQ6_K},
              {"bf16", StorageType::kBF16}, {"f16", StorageType::kF16},   {"f32", StorageType::kF32}};

StorageType type_of(const std::string& name) {
  for (const auto& row : kTypes)
    if (name == row.name) return row.type;
  std::fprintf(stderr, "unknown type %s\n", name.c_str());
  std::exit(1);
}

}  // namespace

int main(int count, char** words) {
  CpuOptions cpu;
  std::string types = "q4_1,q8_0", rows = "1,4,16,64,256", shapes = "576x576,3072x576,576x1536,960x576,4096x4096,11008x4096";
  long ms = 60, stream = 0;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = words[i], value = words[i + 1];
    if (option == "--isa") cpu.isa = value;
    if (option == "--threads") cpu.threads = static_cast<std::size_t>(std::stoul(value));
    if (option == "--act")
      cpu.activations = value == "fp32" ? Activations::kFp32 : value == "token" ? Activations::kInt8Token : Activations::kInt8Group32;
    if (option == "--weights") cpu.weights = value == "int8-channel" ? WeightFormat::kInt8Channel : WeightFormat::kFile;
    if (option == "--types") types = value;
    if (option == "--rows") rows = value;
    if (option == "--shapes") shapes = value;
    if (option == "--ms") ms = std::stol(value);
    if (option == "--stream") stream = std::stol(value);
  }
  const Peaks peaks = measure_peaks({cpu.threads, cpu.isa, std::chrono::milliseconds(60), static_cast<std::size_t>(stream) << 30});
  std::printf("%s, %zu threads: int8 %.0f GOPS, fp32 %.0f, bf16 %.0f; L2 %.0f GB/s, DRAM %.1f GB/s\n", peaks.isa.c_str(), peaks.threads,
              peaks.int8_gops, peaks.fp32_gflops, peaks.bf16_gflops, peaks.l2_gbps, peaks.dram_gbps);
  const auto backend = make_cpu_backend(cpu);
  for (const std::string& type : split(types, ','))
    for (const std::string& shape : split(shapes, ',')) {
      std::printf("%-5s %-11s", type.c_str(), shape.c_str());
      for (const std::string& m : split(rows, ',')) {
        const std::vector<std::string> sides = split(shape, 'x');
        const ProductShape product{type_of(type), std::stoul(sides[0]), std::stoul(sides[1]), std::stoul(m)};
        const ProductRate rate = measure_product(*backend, product, std::chrono::milliseconds(ms), static_cast<std::size_t>(stream) << 30);
        std::printf(" | M %s: %.1f us %.0f (%.0f%%) %.1f GB/s", m.c_str(), rate.seconds * 1e6, rate.gops,
                    100 * rate.gops / (cpu.activations == Activations::kFp32 ? peaks.fp32_gflops : peaks.int8_gops), rate.gbps);
        std::fflush(stdout);
      }
      std::printf("\n");
    }
}
