// Products with bf16 inputs: the written rule on every level, bit for bit, with all that flushing of denormals brings; and their accuracy.
// (Shapes, splits and levels of all float products: conformance.)
#include "tests/kernels/support.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr float kSmallest = std::numeric_limits<float>::min();  // the smallest normal number

/// Nearest bf16, by comparing distances; denormals are zero.
float to_bfloat(float x) {
  if (std::fabs(x) < kSmallest) return std::copysign(0.0F, x);
  const std::uint32_t below = std::bit_cast<std::uint32_t>(x) & 0xffff0000U;  // toward zero
  const double lower = std::bit_cast<float>(below), upper = std::bit_cast<float>(below + 0x10000U);
  const double to_lower = std::fabs(x - lower), to_upper = std::fabs(upper - x);
  const bool up = to_upper < to_lower || (to_upper == to_lower && (below & 0x10000U) != 0);
  return static_cast<float>(up ? upper : lower);
}

/// a * b + c rounded once; what is below the smallest normal number after rounding to 24 bits is zero.
float multiply_add(float a, float b, float c) {
  const double product = static_cast<double>(a) * b;  // exact: 16 bits
  const float sum = std::fma(a, b, c);
  if (std::fabs(sum) > kSmallest) return sum;
  // Near there, scaled out of the denormals, where rounding to fp32 is rounding to 24 bits. (long double holds the exact sum.)
  const long double exact = static_cast<long double>(product) + c;
  return std::fabs(static_cast<float>(exact * 0x1p64L)) < kSmallest * 0x1p64F ? std::copysign(0.0F, sum) : sum;
}

/// One output by the rule of kernels/README.md.
float expected_output(const float* x, const float* w, std::size_t n) {
  float sum = 0;
  for (std::size_t k = 0; k < n; k += 2) {
    const bool whole = k + 1 < n;
    sum = multiply_add(whole ? to_bfloat(x[k + 1]) : 0.0F, whole ? to_bfloat(w[k + 1]) : 0.0F, sum);
    sum = multiply_add(to_bfloat(x[k]), to_bfloat(w[k]), sum);
  }
  return sum;
}

std::vector<float> multiply(Backend& backend, const FileMatrix& m, Rows x) {
  const MatrixSource source = m.source();
  const auto weight = backend.pack({&source, 1});
  OwnedRows y(x.count, m.rows);
  backend.linear(*weight, x, y.rows);
  return y.data;
}

FileMatrix matrix_of(const std::vector<float>& values, std::size_t rows, std::size_t cols) {
  FileMatrix m{StorageType::kF32, rows, cols, std::vector<std::byte>(values.size() * sizeof(float)), values};
  std::memcpy(m.bytes.data(), values.data(), m.bytes.size());
  return m;
}

void check_rule(const FileMatrix& m, Rows x) {
  std::vector<float> expected;
  for (std::size_t i = 0; i < x.count; ++i)
    for (std::size_t n = 0; n < m.rows; ++n) expected.push_back(expected_output(x.row(i), &m.values[n * m.cols], m.cols));
  for (const std::string& isa : cpu_isa_levels()) {
    CAPTURE(isa, static_cast<int>(m.type), m.cols, x.count);
    CHECK(same_bits(multiply(*test_backend(isa, 1, Activations::kBf16), m, x), expected));
  }
}

}  // namespace

TEST_CASE("bf16 products follow the rule on every level") {
  Random random(31);
  for (const StorageType type : kAllStorageTypes)
    for (const std::size_t count : {1, 3, 9}) {
      const std::size_t cols = type == StorageType::kQ6_K ? 256 : count == 3 ? 64 : 288;
      const FileMatrix m = random_matrix(random, type, 50, cols);
      OwnedRows x(count, cols);
      x.data = normals(random, x.data.size());
      x.rows.data = x.data.data();
      check_rule(m, x.rows);
    }
  for (const StorageType type : {StorageType::kF32, StorageType::kF16, StorageType::kBF16})
    for (const std::size_t cols : {1, 2, 19, 33}) {
      const FileMatrix m = random_matrix(random, type, 49, cols);
      OwnedRows x(2, cols);
      x.data = normals(random, x.data.size());
      x.rows.data = x.data.data();
      check_rule(m, x.rows);
    }
}

TEST_CASE("bf16 products know no denormal numbers, on any level") {
  Random random(32);
  // Products and sums around 2^-126, denormal inputs and weights among them.
  std::vector<float> w(48 * 64);
  for (float& value : w) value = std::ldexp(random.normal(), -62 - static_cast<int>(random.below(4)));
  for (std::size_t i = 0; i < w.size(); i += 37) w[i] = std::ldexp(random.normal(), -128);
  OwnedRows x(9, 64);
  for (float& value : x.data) value = std::ldexp(random.normal(), -62 - static_cast<int>(random.below(4)));
  for (std::size_t i = 0; i < x.data.size(); i += 29) x.data[i] = std::ldexp(random.normal(), i % 2 ? -127 : 20);
  check_rule(matrix_of(w, 48, 64), x.rows);

  // 2^-126 less 1.5 * 2^-151 rounds to 2^-126 as a denormal number would, but has 24 bits below it: zero. With 2^-151 it stays.
  OwnedRows pair(1, 2);
  pair.data = {0x1p-75F, 0x1p-63F};
  pair.rows.data = pair.data.data();
  const FileMatrix edge = matrix_of({-0x1.8p-76F, 0x1p-63F, -0x1p-76F, 0x1p-63F}, 2, 2);
  check_rule(edge, pair.rows);
  const std::vector<float> y = multiply(*test_backend("ref", 1, Activations::kBf16), edge, pair.rows);
  CHECK(y[0] == 0.0F);
  CHECK(y[1] == kSmallest);
}

TEST_CASE("a bf16 product leaves the thread's treatment of denormal numbers as it was") {
  Random random(33);
  const FileMatrix m = random_matrix(random, StorageType::kBF16, 48, 32);
  OwnedRows x(1, 32);
  for (const std::string& isa : cpu_isa_levels()) {
    multiply(*test_backend(isa, 1, Activations::kBf16), m, x.rows);
    volatile float tiny = kSmallest;
    tiny = tiny / 2;
    CAPTURE(isa);
    CHECK(tiny > 0.0F);
  }
}

TEST_CASE("bf16 products are accurate") {
  Random random(34);
  for (const StorageType type : kAllStorageTypes) {
    const FileMatrix m = random_matrix(random, type, 97, 768);
    OwnedRows x(5, 768);
    x.data = normals(random, x.data.size());
    x.rows.data = x.data.data();
    const std::vector<float> y = multiply(*test_backend("", 1, Activations::kBf16), m, x.rows);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < x.rows.count; ++i)
      for (std::size_t n = 0; n < m.rows; ++n) {
        double sum = 0;
        for (std::size_t k = 0; k < m.cols; ++k) sum += static_cast<double>(x.rows.row(i)[k]) * m.values[n * m.cols + k];
        error += (sum - y[i * m.rows + n]) * (sum - y[i * m.rows + n]);
        size += sum * sum;
      }
    CAPTURE(static_cast<int>(type));
    CHECK(std::sqrt(error / size) < 0.003);
    CHECK(std::sqrt(error / size) > 1e-5);  // else it was computed in fp32
  }
}
