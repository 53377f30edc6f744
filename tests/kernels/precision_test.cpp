// What buys precision beyond 8 bits: inputs in two terms, heads spread before they are quantized. Smaller errors, the same bits on
// every level, batch and thread split, and no change where nothing is quantized.
#include "tests/kernels/support.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr float kEps = 1e-5F;

/// rms of the difference of norm_linear-like results from a product in double.
double product_error(const FileMatrix& matrix, const OwnedRows& x, const std::vector<float>& norm, const OwnedRows& y) {
  double error = 0;
  for (std::size_t r = 0; r < x.rows.count; ++r) {
    double squares = 0;
    for (std::size_t c = 0; c < matrix.cols; ++c) squares += std::pow(static_cast<double>(x.rows.row(r)[c]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(matrix.cols) + static_cast<double>(kEps));
    for (std::size_t o = 0; o < matrix.rows; ++o) {
      double wanted = 0;
      for (std::size_t c = 0; c < matrix.cols; ++c)
        wanted += static_cast<double>(matrix.values[o * matrix.cols + c]) * static_cast<double>(x.rows.row(r)[c]) * scale *
                  static_cast<double>(norm[c]);
      error += std::pow(wanted - static_cast<double>(y.rows.row(r)[o]), 2);
    }
  }
  return std::sqrt(error / static_cast<double>(x.rows.count * matrix.rows));
}

/// Rows with a few large channels, as real activations and keys have them.
void make_outliers(Rows rows, std::size_t every) {
  for (std::size_t r = 0; r < rows.count; ++r)
    for (std::size_t c = 3; c < rows.width; c += every) rows.row(r)[c] *= 12;
}

}  // namespace

TEST_CASE("Two terms make the error of a product a hundred times smaller", "[precision]") {
  for (const StorageType type : {StorageType::kQ4_1, StorageType::kQ4_0, StorageType::kQ8_0, StorageType::kQ6_K}) {
    for (const Activations activations : {Activations::kInt8Group32, Activations::kInt8Token}) {
      CAPTURE(type, activations);
      Random random(5);
      const FileMatrix matrix = random_matrix(random, type, 100, 256);
      const auto backend = test_backend("", 2, activations);
      const MatrixSource source = matrix.source();
      const auto weight = backend->pack({&source, 1});
      OwnedRows x(9, 256), one(9, 100), two(9, 100);
      x.data = normals(random, x.data.size());
      x.rows.data = x.data.data();
      make_outliers(x.rows, 64);
      const std::vector<float> norm = normals(random, 256);
      backend->norm_linear(x.rows, norm.data(), kEps, *weight, one.rows);
      backend->norm_linear_two_terms(x.rows, norm.data(), kEps, *weight, two.rows);
      CHECK(product_error(matrix, x, norm, two) < product_error(matrix, x, norm, one) / 60);
    }
  }
}

TEST_CASE("Two terms: any rows, threads and level give the same bits", "[precision]") {
  Random random(6);
  const FileMatrix q4 = random_matrix(random, StorageType::kQ4_1, 70, 96), q8 = random_matrix(random, StorageType::kQ8_0, 33, 96);
  const FileMatrix f16 = random_matrix(random, StorageType::kF16, 20, 96);
  const std::vector<MatrixSource> sources{q4.source(), f16.source(), q8.source()};
  OwnedRows x(80, 96, 112);
  x.data = normals(random, x.data.size());
  x.rows.data = x.data.data();
  const std::vector<float> norm = normals(random, 96);
  OwnedRows wanted(80, 123);
  const auto reference = test_backend("ref", 1);
  reference->norm_linear_two_terms(x.rows, norm.data(), kEps, *reference->pack(sources), wanted.rows);
  for (const std::string& level : cpu_isa_levels()) {
    for (const std::size_t threads : {1, 3}) {
      const auto backend = test_backend(level, threads);
      const auto weight = backend->pack(sources);
      for (const std::size_t count : {1, 2, 5, 64, 80}) {
        CAPTURE(level, threads, count);
        OwnedRows y(80, 123, 128);
        for (std::size_t first = 0; first < 80; first += count) {
          const std::size_t rows = std::min<std::size_t>(count, 80 - first);
          backend->norm_linear_two_terms(x.rows.slice(first, rows), norm.data(), kEps, *weight, y.rows.slice(first, rows));
        }
        for (std::size_t r = 0; r < 80; ++r) REQUIRE(same_bits(y.rows.row(r), wanted.rows.row(r), 123));
      }
    }
  }
}

TEST_CASE("Two terms change nothing where nothing is quantized", "[precision]") {
  Random random(7);
  const StorageType type = GENERATE(StorageType::kF16, StorageType::kQ4_1);
  const auto backend = test_backend("", 1, type == StorageType::kF16 ? Activations::kInt8Group32 : Activations::kFp32);
  const FileMatrix matrix = random_matrix(random, type, 50, 64);
  const MatrixSource source = matrix.source();
  const auto weight = backend->pack({&source, 1});
  OwnedRows x(3, 64), one(3, 50), two(3, 50);
  x.data = normals(random, x.data.size());
  x.rows.data = x.data.data();
  const std::vector<float> norm = normals(random, 64);
  backend->norm_linear(x.rows, norm.data(), kEps, *weight, one.rows);
  backend->norm_linear_two_terms(x.rows, norm.data(), kEps, *weight, two.rows);
  CHECK(same_bits(one.data, two.data));
}

TEST_CASE("Spread heads: the same attention, a smaller error where K has large channels", "[precision]") {
  constexpr std::size_t kQ = 4, kKv = 2, kRows = 75;
  const std::size_t dim = GENERATE(16, 48, 64, 96, 128);
  CAPTURE(dim);
  const std::uint32_t blocks[] = {2, 0, 1};
  const SequenceRows sequence{0, kRows, 0, blocks};
  const RopeTable rope = make_rope_table(dim, 10000.0, 128);
  Random random(8);
  OwnedRows qkv(kRows, (kQ + 2 * kKv) * dim);
  qkv.data = normals(random, qkv.data.size());
  qkv.rows.data = qkv.data.data();
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t h = kQ; h < kQ + kKv; ++h) qkv.rows.row(r)[h * dim + 5] += 20;  // one large channel in each head of K
  const auto attend = [&](const std::string& level, std::size_t threads, KvFormat format, bool spread) {
    const auto backend = test_backend(level, threads);
    const auto kv = backend->make_kv_cache({1, kKv, dim, 3, format, spread});
    OwnedRows rows = qkv;
    OwnedRows out(kRows, kQ * dim);
    backend->rope_append(rows.rows, kQ, {&sequence, 1}, rope, *kv, 0);
    backend->attention(rows.rows, kQ, {&sequence, 1}, *kv, 0, out.rows);
    return out.data;
  };
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    return std::sqrt(sum / static_cast<double>(a.size()));
  };
  const auto exact = attend("", 1, KvFormat::kFp32, false);
  CHECK(distance(attend("", 1, KvFormat::kFp32, true), exact) < 1e-5);
  const double plain = distance(attend("", 1, KvFormat::kInt8, false), exact);
  const auto spread = attend("", 1, KvFormat::kInt8, true);
  CHECK(distance(spread, exact) < plain * 0.85);
  for (const std::string& level : cpu_isa_levels()) {
    CAPTURE(level);
    CHECK(same_bits(attend(level, 2, KvFormat::kInt8, true), spread));
  }
}
