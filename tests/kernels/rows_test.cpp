// Norms, SwiGLU, sums and rotations of rows of any length: the same bits on every level, and right against double.
#include "tests/kernels/support.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr std::size_t kLengths[] = {1, 15, 16, 17, 31, 32, 33, 64, 65, 100, 576, 700};

std::vector<cpu::KernelSet> all_levels() {
  std::vector<cpu::KernelSet> sets;
  for (const cpu::Isa isa : cpu::available_isas()) sets.push_back(cpu::kernels_for(isa));
  return sets;
}

/// Runs op(set, output) on all levels and compares with ref; what lies behind the row must not change.
template <typename Op>
std::vector<float> on_all_levels(std::size_t n, const std::vector<float>& start, Op op) {
  std::vector<float> expected = start;
  expected.resize(n + 32, 123.0F);
  const std::vector<float> fresh = expected;
  op(cpu::kernels_for(cpu::Isa::kRef), expected.data());
  for (std::size_t i = n; i < expected.size(); ++i) CHECK(expected[i] == 123.0F);
  for (const cpu::KernelSet& set : all_levels()) {
    std::vector<float> got = fresh;
    op(set, got.data());
    CAPTURE(std::string(cpu::isa_name(set.isa)), n);
    CHECK(same_bits(got, expected));
  }
  expected.resize(n);
  return expected;
}

}  // namespace

TEST_CASE("rms_norm") {
  Random random(21);
  for (const std::size_t n : kLengths) {
    const std::vector<float> x = normals(random, n, 3.0F), w = normals(random, n);
    const auto y = on_all_levels(n, std::vector<float>(n), [&](const cpu::KernelSet& set, float* to) {
      set.rows.rms_norm(x.data(), w.data(), static_cast<int>(n), 1e-5F, to);
    });
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(1e-5F));
    for (std::size_t i = 0; i < n; ++i) CHECK(y[i] == Approx(x[i] * r * w[i]).epsilon(1e-6));
  }
}

TEST_CASE("swiglu") {
  Random random(22);
  for (const std::size_t n : kLengths) {
    std::vector<float> gate = normals(random, n, 20.0F);
    const std::vector<float> up = normals(random, n);
    gate[0] = n % 2 ? -200.0F : 200.0F;  // beyond the clamp
    const auto y = on_all_levels(n, std::vector<float>(n), [&](const cpu::KernelSet& set, float* to) {
      set.rows.swiglu(gate.data(), up.data(), static_cast<int>(n), to);
    });
    for (std::size_t i = 0; i < n; ++i) {
      const double g = gate[i], expected = g / (1.0 + std::exp(-g)) * up[i];
      // The exponent is rounded to fp32 before the power: its error grows with the gate.
      CHECK(std::fabs(y[i] - expected) <= (1e-6 + 1.3e-7 * std::fabs(g)) * std::fabs(expected) + 1e-30);
    }
  }
}

TEST_CASE("add") {
  Random random(23);
  for (const std::size_t n : kLengths) {
    const std::vector<float> x = normals(random, n), addend = normals(random, n);
    const auto y = on_all_levels(n, x, [&](const cpu::KernelSet& set, float* to) { set.rows.add(to, addend.data(), static_cast<int>(n)); });
    for (std::size_t i = 0; i < n; ++i) CHECK(y[i] == x[i] + addend[i]);
  }
}

TEST_CASE("rope rotates adjacent pairs or halves") {
  Random random(24);
  for (const std::size_t dim : {16, 32, 48, 64, 80, 128})
    for (const bool adjacent : {true, false}) {
      const std::size_t half = dim / 2;
      const std::vector<float> x = normals(random, dim), angle = normals(random, half, 2.0F);
      std::vector<float> c(half), s(half);
      for (std::size_t i = 0; i < half; ++i) c[i] = std::cos(angle[i]), s[i] = std::sin(angle[i]);
      const auto y = on_all_levels(
          dim, x, [&](const cpu::KernelSet& set, float* to) { set.rows.rope(to, c.data(), s.data(), static_cast<int>(half), adjacent); });
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t a = adjacent ? 2 * i : i, b = adjacent ? 2 * i + 1 : i + half;
        CHECK(y[a] == Approx(double{x[a]} * c[i] - double{x[b]} * s[i]).margin(1e-6));
        CHECK(y[b] == Approx(double{x[a]} * s[i] + double{x[b]} * c[i]).margin(1e-6));
      }
    }
}

TEST_CASE("half precision of the cache rounds to nearest even on every level") {
  Random random(25);
  const std::size_t dim = 16;
  const float edges[] = {0.0F,    -0.0F,   1.0F,    65504.0F, 65519.0F, 65520.0F, 1e9F,
                         6.1e-5F, 5.9e-8F, 2.9e-8F, 3.1e-8F,  1e-9F,    0.33333F, -2.0003F};
  std::vector<float> k = normals(random, dim), v = normals(random, dim, 1e-5F);
  std::copy(std::begin(edges), std::end(edges), k.begin());
  std::vector<std::uint8_t> expected;
  for (const cpu::KernelSet& set : all_levels()) {
    std::vector<std::uint8_t> head(2 * 32 * dim * 2);
    set.attention.store_f16(head.data(), static_cast<int>(dim), 5, k.data(), v.data());
    if (expected.empty()) expected = head;
    CHECK(head == expected);
  }
}

TEST_CASE("batches of rows use the same kernels on any number of threads") {
  Random random(26);
  for (const std::string& isa : cpu_isa_levels())
    for (const std::size_t threads : {1, 2, 5}) {
      const auto one = test_backend("ref", 1), many = test_backend(isa, threads);
      OwnedRows x(40, 608, 640), a(40, 304), b(40, 304), wide_a(40, 608), wide_b(40, 608);
      x.data = normals(random, x.data.size());
      x.rows.data = x.data.data();
      const std::vector<float> w = normals(random, 608);
      one->swiglu(x.rows, a.rows);
      many->swiglu(x.rows, b.rows);
      CHECK(same_bits(a.data, b.data));
      one->rms_norm(x.rows, w.data(), 1e-6F, wide_a.rows);
      many->rms_norm(x.rows, w.data(), 1e-6F, wide_b.rows);
      CHECK(same_bits(wide_a.data, wide_b.data));
      one->add(wide_a.rows, x.rows);
      many->add(wide_b.rows, x.rows);
      CHECK(same_bits(wide_a.data, wide_b.data));
    }
}

TEST_CASE("quantization_error is rounded once") {
  constexpr int kCols = 96;
  Random random(27);
  const std::vector<float> x = normals(random, kCols, 3.0F);
  for (const cpu::KernelSet& set : all_levels()) {
    CAPTURE(std::string(cpu::isa_name(set.isa)));
    std::vector<std::int8_t> q(kCols + 64);
    std::vector<float> scales(kCols / cpu::kGroup), scaled_sums(scales.size()), error(kCols);
    std::vector<std::int32_t> half_sums(2 * scales.size()), biases(scales.size());
    cpu::QuantizedRows rows;
    rows.values = q.data();
    rows.stride = q.size();
    rows.scales = scales.data();
    rows.scaled_sums = scaled_sums.data();
    rows.half_sums = half_sums.data();
    rows.biases = biases.data();
    rows.per_group = true;
    set.matmul.quantize_row(x.data(), kCols, rows, 0);
    set.rows.quantization_error(x.data(), kCols, rows, 0, error.data());
    for (std::size_t i = 0; i < kCols; ++i) CHECK(error[i] == std::fma(-static_cast<float>(q[i]), scales[i / cpu::kGroup], x[i]));
  }
}
