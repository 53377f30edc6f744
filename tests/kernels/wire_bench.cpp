// Rows as they travel between ranks: speed of one core, and relative error. No test: figures to look at while a kernel changes.
//   wire_bench [errors]     level: TROUPE_CPU_ISA
#include "tests/kernels/support.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr struct {
  const char* name;
  WireFormat format;
} kFormats[] = {{"fp32", WireFormat::kFp32},
                {"bf16", WireFormat::kBf16},
                {"int8 g128", WireFormat::kInt8Group128},
                {"int8 g32", WireFormat::kInt8Group32},
                {"int6 g32", WireFormat::kInt6Group32},
                {"int4 g32", WireFormat::kInt4Group32}};

/// Seconds of the best call: other work on the machine only ever adds.
template <typename Call>
double best_seconds(Call call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  const auto begin = Clock::now();
  for (int i = 0; i < 5 || Clock::now() - begin < std::chrono::milliseconds(150); ++i) {
    const auto start = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

void speeds() {
  CpuOptions options;
  options.threads = 1;
  const auto backend = make_cpu_backend(options);
  std::printf("%s; Gelem/s\n", backend->description().c_str());
  Random random(1);
  for (const auto& row : kFormats)
    for (const std::size_t rows : {32, 2048}) {
      constexpr std::size_t kWidth = 2048;
      OwnedRows x(rows, kWidth), y(rows, kWidth);
      x.data = normals(random, x.data.size());
      x.rows.data = x.data.data();
      std::vector<std::byte> a(rows * wire_row_bytes(row.format, kWidth)), b(a.size());
      const std::span<const std::byte> parts[] = {a, b};
      const double elements = static_cast<double>(rows * kWidth) * 1e-9;
      const double encode = best_seconds([&] { backend->encode(x.rows, row.format, a); });
      backend->encode(x.rows, row.format, b);
      const double one = best_seconds([&] { backend->decode_sum({parts, 1}, row.format, y.rows, Output::kAdd); });
      const double two = best_seconds([&] { backend->decode_sum(parts, row.format, y.rows, Output::kAdd); });
      std::printf("%-10s %4zu x %zu: encode %5.1f, y += one part %5.1f, y += sum of two %5.1f\n", row.name, rows, kWidth, elements / encode,
                  elements / one, elements / two);
    }
}

/// |decoded - x| / |x|, of Gauss data as it is and with every 61st channel 50 times as large.
void errors() {
  const auto backend = test_backend("", 1);
  for (const auto& row : kFormats) {
    std::printf("%-10s", row.name);
    for (const bool outliers : {false, true}) {
      Random random(2);
      OwnedRows x(256, 2048), y(256, 2048);
      x.data = normals(random, x.data.size());
      x.rows.data = x.data.data();
      for (std::size_t i = 5; outliers && i < x.data.size(); ++i)
        if (i % 2048 % 61 == 5) x.data[i] *= 50.0F;
      std::vector<std::byte> bytes(256 * wire_row_bytes(row.format, 2048));
      backend->encode(x.rows, row.format, bytes);
      const std::span<const std::byte> part = bytes;
      backend->decode_sum({&part, 1}, row.format, y.rows, Output::kStore);
      double error[2] = {}, size[2] = {};  // of all values, and of those that are not outliers
      for (std::size_t i = 0; i < x.data.size(); ++i) {
        const double difference = double{y.data[i]} - x.data[i];
        for (const int ordinary : {0, 1}) {
          if (ordinary == 1 && outliers && i % 2048 % 61 == 5) continue;
          error[ordinary] += difference * difference;
          size[ordinary] += double{x.data[i]} * x.data[i];
        }
      }
      std::printf("  %s: %.4f %%, ordinary channels %.4f %%", outliers ? "outliers" : "clean", 100 * std::sqrt(error[0] / size[0]),
                  100 * std::sqrt(error[1] / size[1]));
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "errors")
    errors();
  else
    speeds();
}
