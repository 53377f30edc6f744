// Row kernels and, as they work on single rows too, quantize_row: every length from 1 to beyond a few vectors, and values of all sizes.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/values.h"

#include <numeric>

namespace troupe::kernels::testing {
namespace {

std::vector<int> lengths() {
  std::vector<int> all(is_sanitized() ? 70 : 150);
  std::iota(all.begin(), all.end(), 1);
  for (const int n : {255, 256, 257, 576, 700, 1536}) all.push_back(n);
  return all;
}

std::size_t count_of(int n) { return static_cast<std::size_t>(n); }

Case per_length(const std::string& kernel, std::function<void(const cpu::RowKernels&, int, Magnitude, Edge, Record&)> one) {
  return {"rows " + kernel, "lengths 1 to 150 and more",
          [one = std::move(one)](const cpu::KernelSet& set, const Setting& setting, Record& out) {
            for (const int n : lengths())
              for (const Magnitude magnitude : kAllMagnitudes) one(set.rows, n, magnitude, setting.edge, out);
          }};
}

std::string piece(int n, Magnitude magnitude) { return "length " + std::to_string(n) + ", " + name_of(magnitude); }

Case rms_norm() {
  return per_length("rms_norm", [](const cpu::RowKernels& rows, int n, Magnitude magnitude, Edge edge, Record& out) {
    Random random(count_of(n));
    const GuardedArray<float> x(values_of(random, count_of(n), magnitude), edge), weight(normals(random, count_of(n)), edge);
    const GuardedArray<float> y(count_of(n), edge);
    rows.rms_norm(x.data(), weight.data(), n, 1e-5F, y.data());
    out.add(piece(n, magnitude), y);
    rows.rms_norm(x.data(), weight.data(), n, 1e-5F, x.data());  // in place
    out.expect(same_bits(x.data(), y.data(), count_of(n)), "rms_norm in place, " + piece(n, magnitude));
  });
}

Case swiglu() {
  return per_length("swiglu", [](const cpu::RowKernels& rows, int n, Magnitude magnitude, Edge edge, Record& out) {
    Random random(count_of(n) + 1000);
    const GuardedArray<float> gate(values_of(random, count_of(n), magnitude), edge), up(values_of(random, count_of(n), magnitude), edge);
    const GuardedArray<float> y(count_of(n), edge);
    rows.swiglu(gate.data(), up.data(), n, y.data());
    out.add(piece(n, magnitude), y);
  });
}

Case add() {
  return per_length("add", [](const cpu::RowKernels& rows, int n, Magnitude magnitude, Edge edge, Record& out) {
    Random random(count_of(n) + 2000);
    const GuardedArray<float> x(values_of(random, count_of(n), magnitude), edge), addend(values_of(random, count_of(n), magnitude), edge);
    rows.add(x.data(), addend.data(), n);
    out.add(piece(n, magnitude), x);
  });
}

Case rope() {
  return {"rows rope", "heads of 2 to 256", [](const cpu::KernelSet& set, const Setting& setting, Record& out) {
            for (int half = 1; half <= 128; half += half < 40 ? 1 : 8)
              for (const bool adjacent : {false, true})
                for (const Magnitude magnitude : kAllMagnitudes) {
                  Random random(count_of(half) + 3000);
                  const GuardedArray<float> head(values_of(random, 2 * count_of(half), magnitude), setting.edge);
                  const GuardedArray<float> cosine(normals(random, count_of(half), 0.3F), setting.edge);
                  const GuardedArray<float> sine(normals(random, count_of(half), 0.3F), setting.edge);
                  set.rows.rope(head.data(), cosine.data(), sine.data(), half, adjacent);
                  out.add((adjacent ? "adjacent, " : "halves, ") + piece(2 * half, magnitude), head);
                }
          }};
}

Case spread() {
  return {"rows spread", "heads of 16 to 512", [](const cpu::KernelSet& set, const Setting& setting, Record& out) {
            for (int dim = 16; dim <= cpu::kMaxHeadDim; dim += 16)
              for (const float factor : {1.0F, 0.03125F}) {
                Random random(count_of(dim) + 4000);
                const int block = dim & (~dim + 1);
                const GuardedArray<float> head(values_of(random, count_of(dim), Magnitude::kOrdinary), setting.edge);
                set.rows.spread(head.data(), dim, block, factor);
                out.add(piece(dim, Magnitude::kOrdinary), head);
              }
          }};
}

Case quantization() {
  return {"rows quantize_row, quantization_error", "32 to 1536 inputs", [](const cpu::KernelSet& set, const Setting& setting, Record& out) {
            for (const std::size_t groups : {1, 2, 3, 5, 8, 18, 48})
              for (const bool per_group : {false, true})
                for (const Magnitude magnitude : kAllMagnitudes) {
                  const std::size_t cols = groups * cpu::kGroup;
                  const std::string name = piece(static_cast<int>(cols), magnitude) + (per_group ? ", scale a group" : ", scale a token");
                  Random random(groups + 5000);
                  const GuardedRows rows(3, cols, 16, per_group, setting.edge);
                  const GuardedArray<float> x(values_of(random, cols, magnitude), setting.edge), error(cols, setting.edge);
                  for (const std::size_t row : {2, 0, 1}) set.matmul.quantize_row(x.data(), static_cast<int>(cols), rows.rows, row);
                  rows.add_to(out, name);
                  set.rows.quantization_error(x.data(), static_cast<int>(cols), rows.rows, 2, error.data());
                  out.add(name + ", error", error);
                }
          }};
}

}  // namespace

std::vector<Case> row_cases() { return {rms_norm(), swiglu(), add(), rope(), spread(), quantization()}; }

}  // namespace troupe::kernels::testing
