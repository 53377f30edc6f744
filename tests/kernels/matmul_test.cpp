// Matrix products: every level, storage type and activation scheme gives the bits of the reference, whatever the number of rows, the
// threads and the strides; and the reference is right, against sums in double.
#include "tests/kernels/support.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr Activations kSchemes[] = {Activations::kInt8Group32, Activations::kInt8Token, Activations::kFp32, Activations::kBf16};

OwnedRows random_rows(Random& random, std::size_t count, std::size_t width) {
  OwnedRows x(count, width);
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = random.normal() * (i % width % 41 == 5 ? 8.0F : 1.0F);
  return x;
}

std::vector<float> multiply(Backend& backend, const FileMatrix& m, Rows x, std::size_t stride = 0) {
  const MatrixSource source = m.source();
  const auto weight = backend.pack({&source, 1});
  OwnedRows y(x.count, m.rows, stride);
  backend.linear(*weight, x, y.rows);
  return y.data;
}

/// Largest error and the size of the result, root mean square over all outputs.
double relative_error(const FileMatrix& m, Rows x, const std::vector<float>& y) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.count; ++i)
    for (std::size_t n = 0; n < m.rows; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < m.cols; ++k) sum += static_cast<double>(x.row(i)[k]) * m.values[n * m.cols + k];
      const double difference = sum - y[i * m.rows + n];
      error += difference * difference;
      size += sum * sum;
    }
  return std::sqrt(error / size);
}

}  // namespace

TEST_CASE("products equal the reference bit for bit on every level") {
  Random random(11);
  for (const StorageType type : kAllTypes) {
    const std::size_t block = type == StorageType::kQ6_K ? 256 : 32;
    for (const std::size_t rows : {1, 48, 70}) {
      const std::size_t cols = block * random.between(1, 256 / block);
      const FileMatrix m = random_matrix(random, type, rows, cols);
      for (const Activations scheme : kSchemes)
        for (const std::size_t count : {1, 6, 7, 65}) {  // a tile and 1, 2 or 3 rows more; more than a block of rows
          const OwnedRows x = random_rows(random, count, cols);
          const std::vector<float> expected = multiply(*test_backend("ref", 1, scheme), m, x.rows);
          for (const std::string& isa : cpu_isa_levels()) {
            if (isa == "ref" && count > 7) continue;
            CAPTURE(static_cast<int>(type), static_cast<int>(scheme), rows, cols, count, isa);
            CHECK(same_bits(multiply(*test_backend(isa, 1 + count % 3, scheme), m, x.rows), expected));
          }
        }
    }
  }
}

TEST_CASE("a row does not depend on its batch, the threads or the stride") {
  Random random(12);
  const std::string best = cpu_isa_levels().front();
  for (const StorageType type : kAllTypes) {
    const FileMatrix m = random_matrix(random, type, 130, 512);
    const OwnedRows x = random_rows(random, 70, 512);
    for (const Activations scheme : kSchemes) {
      const std::vector<float> all = multiply(*test_backend(best, 1, scheme), m, x.rows);
      for (std::size_t first = 0; first < 70;) {
        const std::size_t count = std::min<std::size_t>(random.between(1, 67), 70 - first), threads = random.between(1, 7);
        const std::size_t stride = 130 + random.below(3) * 7;
        const std::vector<float> some = multiply(*test_backend(best, threads, scheme), m, x.rows.slice(first, count), stride);
        CAPTURE(static_cast<int>(type), static_cast<int>(scheme), first, count, threads);
        for (std::size_t i = 0; i < count; ++i) CHECK(same_bits(&some[i * stride], &all[(first + i) * 130], 130));
        first += count;
      }
    }
  }
}

TEST_CASE("one scale a channel: every level, batch and split gives the bits of the reference") {
  Random random(18);
  for (const StorageType type : {StorageType::kQ4_0, StorageType::kQ8_0, StorageType::kF32})
    for (const Activations scheme : kSchemes) {
      const FileMatrix m = random_matrix(random, type, 70, 32 * random.between(1, 20));
      const OwnedRows x = random_rows(random, 70, m.cols);
      const std::vector<float> expected = multiply(*test_backend("ref", 1, scheme, WeightFormat::kInt8Channel), m, x.rows);
      for (const std::string& isa : cpu_isa_levels())
        for (std::size_t first = 0; first < 70;) {
          const std::size_t count = std::min<std::size_t>(random.between(1, 40), 70 - first);
          const auto backend = test_backend(isa, 1 + count % 3, scheme, WeightFormat::kInt8Channel);
          CAPTURE(static_cast<int>(type), static_cast<int>(scheme), m.cols, first, count, isa);
          CHECK(same_bits(multiply(*backend, m, x.rows.slice(first, count)).data(), &expected[first * 70], count * 70));
          first += count;
        }
    }
}

TEST_CASE("one scale a channel: accurate, and int32 sums hold the largest product") {
  Random random(19);
  const FileMatrix m = random_matrix(random, StorageType::kF32, 60, 768);
  const OwnedRows x = random_rows(random, 5, 768);
  const auto error = [&](Activations scheme) {
    return relative_error(m, x.rows, multiply(*test_backend("", 1, scheme, WeightFormat::kInt8Channel), m, x.rows));
  };
  CHECK(error(Activations::kFp32) < 0.012);
  CHECK(error(Activations::kInt8Group32) < 0.02);
  CHECK(error(Activations::kInt8Token) < 0.06);
  constexpr std::size_t kMost = 65536;
  FileMatrix wide{StorageType::kF32, 2, kMost, std::vector<std::byte>(2 * kMost * sizeof(float)), std::vector<float>(2 * kMost, 1.0F)};
  std::fill_n(wide.values.begin(), kMost, -1.0F);
  std::memcpy(wide.bytes.data(), wide.values.data(), wide.bytes.size());
  OwnedRows ones(1, kMost);
  std::fill(ones.data.begin(), ones.data.end(), 1.0F);
  for (const std::string& isa : cpu_isa_levels()) {
    const std::vector<float> y = multiply(*test_backend(isa, 1, Activations::kInt8Token, WeightFormat::kInt8Channel), wide, ones.rows);
    CHECK(y[0] == Approx(-65536));
    CHECK(y[1] == Approx(65536));
  }
}

TEST_CASE("products are accurate") {
  Random random(13);
  for (const StorageType type : kAllTypes) {
    const FileMatrix m = random_matrix(random, type, 97, 768);
    const OwnedRows x = random_rows(random, 5, 768);
    const bool quantized = type != StorageType::kF32 && type != StorageType::kF16 && type != StorageType::kBF16;
    CAPTURE(static_cast<int>(type));
    CHECK(relative_error(m, x.rows, multiply(*test_backend("ref", 1, Activations::kFp32), m, x.rows)) < 1e-6);
    const double per_group = relative_error(m, x.rows, multiply(*test_backend("ref", 1, Activations::kInt8Group32), m, x.rows));
    const double per_token = relative_error(m, x.rows, multiply(*test_backend("ref", 1, Activations::kInt8Token), m, x.rows));
    CHECK(per_group < (quantized ? 0.02 : 1e-6));
    CHECK(per_token < (quantized ? 0.06 : 1e-6));
  }
}

TEST_CASE("zero rows and extreme values stay finite") {
  Random random(14);
  const FileMatrix m = random_matrix(random, StorageType::kQ4_1, 48, 64);
  OwnedRows x(3, 64);
  for (std::size_t k = 0; k < 64; ++k) {
    x.rows.row(1)[k] = k % 2 ? 1e-38F : 0.0F;
    x.rows.row(2)[k] = k == 7 ? 1e30F : 1.0F;
  }
  std::vector<float> expected;
  for (const std::string& isa : cpu_isa_levels()) {
    const std::vector<float> y = multiply(*test_backend(isa, 1), m, x.rows);
    if (expected.empty()) expected = y;
    CHECK(same_bits(y, expected));
    for (std::size_t i = 0; i < 48; ++i) CHECK(y[i] == 0.0F);
    for (const float v : y) CHECK(std::isfinite(v));
  }
}

TEST_CASE("a row that is not finite harms no other row") {
  Random random(16);
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const StorageType type : {StorageType::kQ4_1, StorageType::kQ8_0, StorageType::kQ6_K})
    for (const Activations scheme : {Activations::kInt8Group32, Activations::kInt8Token})
      for (const std::string& isa : cpu_isa_levels()) {
        const auto backend = test_backend(isa, 1, scheme);
        const FileMatrix m = random_matrix(random, type, 50, 256);
        OwnedRows x = random_rows(random, 4, 256);
        const std::vector<float> expected = multiply(*backend, m, x.rows);
        x.rows.row(1)[3] = kInfinity;
        x.rows.row(2)[200] = kNan;
        for (std::size_t k = 0; k < 256; ++k) x.rows.row(3)[k] = k % 2 ? kNan : -kInfinity;
        const std::vector<float> y = multiply(*backend, m, x.rows);
        CHECK(std::equal(expected.begin(), expected.begin() + 50, y.begin()));
      }
}

TEST_CASE("fused products equal the composed ones bit for bit") {
  Random random(15);
  for (const StorageType type : {StorageType::kQ4_1, StorageType::kQ8_0, StorageType::kF16})
    for (const Activations scheme : kSchemes)
      for (const std::size_t count : {1, 4, 5, 66})
        for (const std::string& isa : cpu_isa_levels()) {
          const auto backend = test_backend(isa, 1 + count % 4, scheme);
          const FileMatrix m = random_matrix(random, type, 60, 96);
          const MatrixSource source = m.source();
          const auto weight = backend->pack({&source, 1});
          OwnedRows x = random_rows(random, count, 96), gate_up = random_rows(random, count, 192);
          const std::vector<float> norm = normals(random, 96);
          OwnedRows fused(count, 60), composed(count, 60);
          backend->norm_linear(x.rows, norm.data(), 1e-5F, *weight, fused.rows);
          backend->Backend::norm_linear(x.rows, norm.data(), 1e-5F, *weight, composed.rows);
          CHECK(same_bits(fused.data, composed.data));
          backend->swiglu_linear(gate_up.rows, *weight, fused.rows);
          backend->Backend::swiglu_linear(gate_up.rows, *weight, composed.rows);
          CHECK(same_bits(fused.data, composed.data));
        }
}

TEST_CASE("a product that is added to y equals a product and an addition, bit for bit") {
  Random random(20);
  for (const WeightFormat format : kAllWeightFormats)
    for (const Activations scheme : kSchemes)
      for (const std::size_t count : {1, 3, 5, 66})
        for (const std::string& isa : cpu_isa_levels()) {
          const auto backend = test_backend(isa, 1 + count % 3, scheme, format);
          const FileMatrix parts[] = {random_matrix(random, StorageType::kQ4_1, 60, 96), random_matrix(random, StorageType::kF16, 20, 96)};
          const std::vector<MatrixSource> sources = {parts[0].source(), parts[1].source()};
          const auto weight = backend->pack(sources);
          const OwnedRows x = random_rows(random, count, 96), gate_up = random_rows(random, count, 192);
          OwnedRows sum = random_rows(random, count, 80), product(count, 80), wanted = sum;
          backend->linear(*weight, x.rows, sum.rows, Output::kAdd);
          backend->swiglu_linear(gate_up.rows, *weight, sum.rows, Output::kAdd);
          backend->linear(*weight, x.rows, product.rows);
          backend->add(wanted.rows, product.rows);
          backend->swiglu_linear(gate_up.rows, *weight, product.rows);
          backend->add(wanted.rows, product.rows);
          CAPTURE(static_cast<int>(format), static_cast<int>(scheme), count, isa);
          CHECK(same_bits(sum.data, wanted.data));
        }
}

TEST_CASE("mixed stacks multiply like their parts") {
  Random random(16);
  for (const Activations scheme : kSchemes) {
    const auto backend = test_backend(cpu_isa_levels().front(), 3, scheme);
    const FileMatrix parts[] = {random_matrix(random, StorageType::kQ4_1, 50, 256), random_matrix(random, StorageType::kF32, 20, 256),
                                random_matrix(random, StorageType::kQ6_K, 49, 256)};
    const std::vector<MatrixSource> sources = {parts[0].source(), parts[1].source(), parts[2].source()};
    const auto weight = backend->pack(sources);
    for (const std::size_t count : {1, 9}) {
      const OwnedRows x = random_rows(random, count, 256);
      OwnedRows y(count, 119);
      backend->linear(*weight, x.rows, y.rows);
      std::size_t first = 0;
      for (const FileMatrix& part : parts) {
        const std::vector<float> expected = multiply(*backend, part, x.rows);
        for (std::size_t i = 0; i < count; ++i) CHECK(same_bits(&y.rows.row(i)[first], &expected[i * part.rows], part.rows));
        first += part.rows;
      }
    }
  }
}

TEST_CASE("products refuse wrong shapes") {
  Random random(17);
  const auto backend = test_backend("ref", 1);
  const FileMatrix m = random_matrix(random, StorageType::kQ8_0, 10, 64);
  const MatrixSource source = m.source();
  const auto weight = backend->pack({&source, 1});
  OwnedRows x(2, 64), narrow(2, 32), y(2, 10), wide(2, 11), fewer(1, 10);
  CHECK_THROWS_AS(backend->linear(*weight, narrow.rows, y.rows), std::invalid_argument);
  CHECK_THROWS_AS(backend->linear(*weight, x.rows, wide.rows), std::invalid_argument);
  CHECK_THROWS_AS(backend->linear(*weight, x.rows, fewer.rows), std::invalid_argument);
  CHECK_THROWS_AS(backend->swiglu_linear(x.rows, *weight, y.rows), std::invalid_argument);
  CHECK_NOTHROW(backend->linear(*weight, x.rows, y.rows));
}
