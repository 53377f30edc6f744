// The tile kernels of the AMX level give the reference's bits, on an emulated tile unit where the machine has none: all int8 formats,
// both activation schemes, numbers of rows around 16, two terms, sums added to y. (On a machine with the unit, conformance runs them.)
#include "kernels/cpu/pack.h"
#include "tests/kernels/support.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace troupe::kernels::cpu::amx_emulated {
extern void (*const multiply)(const Int8Product&, std::size_t, std::size_t, std::size_t, std::size_t);
}

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

/// Rows as a level's quantize_row leaves them.
struct Quantized {
  std::vector<std::int8_t> values;
  std::vector<float> scales, scaled_sums;
  std::vector<std::int32_t> half_sums, biases;
  cpu::QuantizedRows rows;

  Quantized(const std::vector<float>& x, std::size_t count, std::size_t inputs, bool per_group) {
    const std::size_t groups = inputs / cpu::kGroup, stride = inputs + 16;
    values.resize(count * stride);
    scales.resize(count * groups);
    scaled_sums.resize(count * groups);
    half_sums.resize(2 * count * groups);
    biases.resize(count * groups);
    rows.values = values.data();
    rows.stride = stride;
    rows.scales = scales.data();
    rows.scaled_sums = scaled_sums.data();
    rows.half_sums = half_sums.data();
    rows.biases = biases.data();
    rows.per_group = per_group;
    for (std::size_t row = 0; row < count; ++row)
      cpu::kernels_for(cpu::Isa::kRef).matmul.quantize_row(&x[row * inputs], static_cast<int>(inputs), rows, row);
  }
};

void check_format(StorageType type, WeightFormat weights, Activations activations, std::size_t inputs, std::size_t columns) {
  Random random(inputs + columns);
  const auto backend = test_backend("ref", 1, activations, weights);
  const FileMatrix m = random_matrix(random, type, columns, inputs);
  const auto weight = backend->pack(std::vector{m.source()});
  const cpu::WeightSegment& segment = static_cast<const cpu::PackedWeight&>(*weight).segments().front();
  const std::size_t most = 140;
  const std::vector<float> x = normals(random, most * inputs), before = normals(random, most * columns);
  const Quantized quantized(x, most, inputs, activations == Activations::kInt8Group32);
  for (const std::size_t terms : {1, 2})
    for (const std::size_t rows : {1, 7, 8, 15, 16, 17, 33, 64, 70}) {
      const bool add = rows % 2 == 1;
      std::vector<float> expected = before, got = before;
      cpu::Int8Product p{segment.format,
                         segment.bytes,
                         segment.panel_bytes,
                         static_cast<int>(inputs / cpu::kGroup),
                         columns,
                         quantized.rows,
                         expected.data(),
                         columns,
                         terms,
                         add};
      cpu::kernels_for(cpu::Isa::kRef).matmul.multiply_int8(p, 0, rows, 0, segment.panels);
      p.y = got.data();
      const std::size_t middle = rows / 3, panel = segment.panels / 2;  // in four calls, so that none starts at row 0 and panel 0 alone
      cpu::amx_emulated::multiply(p, 0, middle, 0, panel);
      cpu::amx_emulated::multiply(p, 0, middle, panel, segment.panels);
      cpu::amx_emulated::multiply(p, middle, rows, 0, panel);
      cpu::amx_emulated::multiply(p, middle, rows, panel, segment.panels);
      CAPTURE(static_cast<int>(type), static_cast<int>(weights), static_cast<int>(activations), inputs, columns, rows, terms);
      CHECK(same_bits(got, expected));
    }
}

}  // namespace

TEST_CASE("the tile kernels of AMX equal the reference") {
  for (const Activations activations : {Activations::kInt8Group32, Activations::kInt8Token}) {
    check_format(StorageType::kQ4_1, WeightFormat::kFile, activations, 96, 100);
    check_format(StorageType::kQ4_0, WeightFormat::kFile, activations, 288, 48);
    check_format(StorageType::kQ8_0, WeightFormat::kFile, activations, 32, 49);
    check_format(StorageType::kQ8_0, WeightFormat::kFile, activations, 320, 96);
    check_format(StorageType::kQ6_K, WeightFormat::kFile, activations, 256, 50);
    check_format(StorageType::kQ8_0, WeightFormat::kInt8Channel, activations, 32, 47);
    check_format(StorageType::kQ8_0, WeightFormat::kInt8Channel, activations, 352, 97);
  }
}
