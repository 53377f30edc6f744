// Packing keeps every weight: unpacked rows equal the file's exact values, for all storage types, shapes and stackings.
#include "kernels/cpu/half.h"
#include "kernels/cpu/pack.h"
#include "tests/kernels/support.h"

#include <algorithm>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

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

TEST_CASE("one scale a channel: rows are the file's exact values, quantized once") {
  Random random(5);
  const auto backend = test_backend("ref", 2, Activations::kInt8Group32, WeightFormat::kInt8Channel);
  for (const StorageType type : kAllTypes) {
    const std::size_t cols = type == StorageType::kQ6_K ? 512 : 96;
    FileMatrix m = random_matrix(random, type, 50, cols);
    if (type == StorageType::kF32) {
      float rows[4][96] = {};  // zeros; a row that is tiny; what is not finite counts as 0; a single value
      rows[1][7] = 0x1p-120F;
      rows[2][3] = std::numeric_limits<float>::infinity(), rows[2][4] = std::numeric_limits<float>::quiet_NaN(), rows[2][5] = -2.5F;
      rows[3][95] = 3.0F;
      std::memcpy(m.bytes.data(), rows, sizeof rows);
      std::memcpy(m.values.data(), rows, sizeof rows);
    }
    const MatrixSource source = m.source();
    const auto weight = backend->pack({&source, 1});
    CAPTURE(static_cast<int>(type));
    CHECK(weight->bytes() == 2 * (cols * 48 + 48 * 4));
    const std::vector<float> got = embedded(*backend, *weight);
    for (std::size_t row = 0; row < m.rows; ++row) {
      double amax = 0;
      for (std::size_t k = 0; k < cols; ++k) {
        const double size = std::abs(static_cast<double>(m.values[row * cols + k]));
        if (std::isfinite(size)) amax = std::max(amax, size);
      }
      for (std::size_t k = 0; k < cols; ++k) {
        const float value = m.values[row * cols + k];
        const double wanted = std::isfinite(value) && amax > 0x1p-100 ? static_cast<double>(value) : 0.0;
        if (std::abs(static_cast<double>(got[row * cols + k]) - wanted) > amax / 127 * 0.5001) FAIL("row " << row << ", input " << k);
      }
    }
  }
}

TEST_CASE("one scale a channel: types mix, odd widths keep their format, too many inputs are refused") {
  Random random(6);
  const auto backend = test_backend("ref", 1, Activations::kInt8Group32, WeightFormat::kInt8Channel);
  const FileMatrix q4 = random_matrix(random, StorageType::kQ4_1, 50, 256), q6 = random_matrix(random, StorageType::kQ6_K, 7, 256);
  const std::vector<MatrixSource> sources = {q4.source(), q6.source()};
  CHECK(backend->pack(sources)->bytes() == 2 * (256 * 48 + 48 * 4));  // 57 outputs, one run of panels
  const FileMatrix odd = random_matrix(random, StorageType::kF32, 5, 33);
  const MatrixSource odd_source = odd.source();
  CHECK(same_bits(embedded(*backend, *backend->pack({&odd_source, 1})), odd.values));
  const FileMatrix wide = random_matrix(random, StorageType::kF16, 1, 65536 + 32);
  const MatrixSource wide_source = wide.source();
  CHECK_THROWS_WITH(backend->pack({&wide_source, 1}), Catch::Contains("65536"));
  CHECK(backend->pack_layout() != test_backend("ref", 1)->pack_layout());
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

TEST_CASE("sources are read by panels, and a source that cannot be read is no weight") {
  Random random(4);
  const auto backend = test_backend("ref", 2);
  for (const StorageType type : kAllTypes) {
    const FileMatrix a = random_matrix(random, type, 70, 256), b = random_matrix(random, type, 61, 256);
    const auto reader = [](const FileMatrix& m, std::size_t readable) {
      MatrixSource source = m.source();
      source.data = nullptr;
      source.read = [&m, readable](std::size_t offset, std::span<std::byte> to) {
        if (offset + to.size() > readable) return false;
        std::copy_n(m.bytes.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
        return true;
      };
      return source;
    };
    const auto weight = backend->pack(std::vector{reader(a, a.bytes.size()), b.source()});
    REQUIRE(weight);
    std::vector<float> both = a.values;
    both.insert(both.end(), b.values.begin(), b.values.end());
    CHECK(same_bits(embedded(*backend, *weight), both));
    CHECK(backend->pack(std::vector{reader(a, a.bytes.size()), reader(b, b.bytes.size() - 1)}) == nullptr);
    MatrixSource nothing = a.source();
    nothing.data = nullptr;
    CHECK_THROWS_AS(backend->pack(std::vector{nothing}), std::invalid_argument);
  }
}

TEST_CASE("packed bytes are adopted by another backend, or not at all") {
  Random random(5);
  const auto first = test_backend("ref", 1), second = test_backend(cpu::isa_name(cpu::available_isas().front()).data(), 3);
  REQUIRE(first->pack_layout() == second->pack_layout());
  for (const StorageType type : kAllTypes) {
    const FileMatrix m = random_matrix(random, type, 1200, 512), other = random_matrix(random, type, 1200, 512);
    const auto weight = first->pack(std::vector{m.source()});
    const std::span<const std::byte> bytes = weight->packed();
    REQUIRE(bytes.size() == weight->bytes());
    const auto whole = [&](std::size_t offset, std::span<std::byte> to) {
      if (offset % Backend::kAdoptPiece != 0 || offset + to.size() > bytes.size()) return false;
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
      return true;
    };
    const auto broken = [&](std::size_t offset, std::span<std::byte> to) {
      return whole(offset, to) && offset + to.size() != bytes.size();
    };
    MatrixSource source = m.source();
    source.data = nullptr;
    CAPTURE(static_cast<int>(type));
    CHECK(second->adopt(std::vector{source}, broken) == nullptr);
    const auto later = second->pack(std::vector{other.source()});  // in the memory of the one that failed
    CHECK(same_bits(embedded(*second, *later), embedded(*first, *first->pack(std::vector{other.source()}))));
    const auto adopted = second->adopt(std::vector{source}, whole);
    REQUIRE(adopted);
    CHECK(same_bits(embedded(*second, *adopted), embedded(*first, *weight)));
    CHECK(std::equal(bytes.begin(), bytes.end(), adopted->packed().begin(), adopted->packed().end()));
  }
}

TEST_CASE("packed bytes change only with the revision of the layout") {
  // Packed weights are kept on disk: if a checksum differs, raise kPackRevision (pack.h) and note the new ones here.
  const std::pair<StorageType, std::uint64_t> known[] = {{StorageType::kF32, 0xbbbe347f1370cfa1},  {StorageType::kF16, 0xf0a15a27f8af9350},
                                                         {StorageType::kBF16, 0x61bea3c40c4b8372}, {StorageType::kQ8_0, 0x728c0df0b97225af},
                                                         {StorageType::kQ4_0, 0x881a1fda41a0bc5a}, {StorageType::kQ4_1, 0x40102b809f155574},
                                                         {StorageType::kQ6_K, 0x72bd618a2d3dca9}};
  CHECK(cpu::kPackRevision == 2);
  const auto backend = test_backend("ref", 1);
  for (const auto& [type, checksum] : known) {
    Random random(6);
    const FileMatrix m = random_matrix(random, type, 50, 512);
    std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a
    for (const std::byte b : backend->pack(std::vector{m.source()})->packed())
      sum = (sum ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3;
    CAPTURE(static_cast<int>(type));
    CHECK(sum == checksum);
  }
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
