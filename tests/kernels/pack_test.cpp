// Packing keeps every weight: unpacked rows equal the file's exact values, for all storage types, shapes and stackings.
#include "kernels/cpu/half.h"
#include "tests/kernels/support.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

std::vector<float> embedded(Backend& backend, const Weight& weight) {
  std::vector<std::uint32_t> ids(weight.rows());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i);
  OwnedRows y(ids.size(), weight.cols());
  backend.embed(weight, ids, y.rows);
  return y.data;
}

}  // namespace

TEST_CASE("packed rows are the file's rows") {
  Random random(1);
  const auto backend = test_backend("ref", 2);
  for (const StorageType type : kAllTypes)
    for (const std::size_t rows : {1, 47, 48, 49, 100}) {
      const std::size_t cols = type == StorageType::kQ6_K ? 512 : 96;
      const FileMatrix m = random_matrix(random, type, rows, cols);
      const MatrixSource source = m.source();
      const auto weight = backend->pack({&source, 1});
      CAPTURE(static_cast<int>(type), rows);
      CHECK(weight->rows() == rows);
      CHECK(weight->cols() == cols);
      CHECK(weight->bytes() > 0);
      CHECK(same_bits(embedded(*backend, *weight), m.values));
    }
}

TEST_CASE("stacked matrices keep their order, also of different types") {
  Random random(2);
  const auto backend = test_backend("ref", 3);
  const StorageType stacks[][3] = {{StorageType::kQ4_1, StorageType::kQ4_1, StorageType::kQ4_1},
                                   {StorageType::kQ4_1, StorageType::kQ4_0, StorageType::kQ6_K},
                                   {StorageType::kQ8_0, StorageType::kF32, StorageType::kQ8_0}};
  for (const auto& stack : stacks) {
    std::vector<FileMatrix> parts;
    std::vector<float> all;
    const std::size_t rows[] = {50, 7, 33};
    for (std::size_t i = 0; i < 3; ++i) {
      parts.push_back(random_matrix(random, stack[i], rows[i], 256));
      all.insert(all.end(), parts.back().values.begin(), parts.back().values.end());
    }
    const std::vector<MatrixSource> sources = {parts[0].source(), parts[1].source(), parts[2].source()};
    const auto weight = backend->pack(sources);
    REQUIRE(weight->rows() == 90);
    CHECK(same_bits(embedded(*backend, *weight), all));
  }
}

TEST_CASE("matrices that cannot be packed are refused") {
  Random random(3);
  const auto backend = test_backend("ref", 1);
  const FileMatrix q4 = random_matrix(random, StorageType::kQ4_1, 4, 64);
  const auto refuse = [&](std::vector<MatrixSource> sources) { CHECK_THROWS_AS(backend->pack(sources), std::invalid_argument); };
  refuse({});
  MatrixSource source = q4.source();
  source.cols = 33;
  refuse({source});
  source.cols = 0;
  refuse({source});
  source = q4.source();
  source.rows = 0;
  refuse({source});
  source = q4.source();
  source.type = StorageType::kQ6_K;  // needs blocks of 256
  refuse({source});
  source = q4.source();
  source.cols = 32;
  refuse({q4.source(), source});
  CHECK_THROWS_AS(backend->embed(*backend->pack(std::vector<MatrixSource>{q4.source()}), std::vector<std::uint32_t>{4}, Rows{}),
                  std::invalid_argument);
}

TEST_CASE("halves are read exactly") {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10 & 31U), mantissa = static_cast<int>(bits & 1023U);
    const float got = cpu::half_to_float(half);
    const double size = exponent ? std::ldexp(mantissa + 1024.0, exponent - 25) : std::ldexp(mantissa, -24);
    if (exponent == 31) {
      CHECK((mantissa ? std::isnan(got) : std::isinf(got)));
      continue;
    }
    if (static_cast<double>(got) != (bits & 0x8000U ? -size : size)) FAIL("half " << bits);
    const float minus_eight = cpu::half_to_float(cpu::minus_eight_times(half));
    if (size * 8 < 65520 && minus_eight != -8.0F * got) FAIL("-8 * half " << bits);
  }
}
