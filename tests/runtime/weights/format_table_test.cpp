#include "runtime/weights/format_table.h"
#include "runtime/weights/half.h"
#include "tests/support/quantize.h"
#include "tests/support/random.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::weights;
using kernels::StorageType;

namespace {
std::vector<float> dequantize(const Format& format, const std::string& bytes) {
  REQUIRE(bytes.size() % format.block_bytes == 0);
  const std::size_t blocks = bytes.size() / format.block_bytes;
  std::vector<float> out(blocks * format.block_elements);
  format.dequantize(reinterpret_cast<const std::byte*>(bytes.data()), blocks, out.data());
  return out;
}
}  // namespace

TEST_CASE("fp16 conversion is exact for all 65536 values") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    const std::uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
      CHECK((fraction == 0 ? std::isinf(value) : std::isnan(value)));
      continue;
    }
    const double expected = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25);
    if (value != static_cast<float>(sign * expected)) CHECK(value == static_cast<float>(sign * expected));
    if (weights::float_to_half(value) != half) CHECK(weights::float_to_half(value) == half);
  }
}

TEST_CASE("every format gives back what was quantized, within its step") {
  test::SmallRandom random(9);
  std::vector<float> values(512);
  for (float& value : values) value = random.normal();
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const std::string bytes = test::quantize(format.type, values);
    CHECK(bytes.size() == values.size() / format.block_elements * format.block_bytes);
    const auto back = dequantize(format, bytes);
    // Largest value of a block is about 3: 4 bits make steps of 3/7, 6 bits of 3/31, 8 bits of 3/127.
    const float step = format.type == StorageType::kF32                                         ? 0.0F
                       : format.type == StorageType::kF16                                       ? 0.002F
                       : format.type == StorageType::kBF16 || format.type == StorageType::kQ8_0 ? 0.02F
                       : format.type == StorageType::kQ6_K                                      ? 0.12F
                                                                                                : 0.35F;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::fabs(back[i] - values[i]) > step) CHECK(back[i] == Approx(values[i]).margin(step));
    CHECK(find_format(format.gguf_type) == &format_of(format.type));
  }
}

TEST_CASE("block layouts, bit by bit") {
  std::string q4_1(20, '\0');  // scale 1.0, minimum -2.0, nibbles counting up
  q4_1[1] = 0x3c;
  q4_1[3] = static_cast<char>(0xc0);
  for (int i = 0; i < 16; ++i) q4_1[static_cast<std::size_t>(4 + i)] = static_cast<char>(i | (15 - i) << 4);
  const auto values = dequantize(format_of(StorageType::kQ4_1), q4_1);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(values[i] == static_cast<float>(i) - 2.0F);
    CHECK(values[i + 16] == static_cast<float>(15 - i) - 2.0F);
  }
  std::string q4_0(18, '\0');
  q4_0[1] = 0x3c;
  q4_0[2] = static_cast<char>(0xf0);
  CHECK(dequantize(format_of(StorageType::kQ4_0), q4_0)[0] == -8.0F);
  CHECK(dequantize(format_of(StorageType::kQ4_0), q4_0)[16] == 7.0F);

  std::string q6_k(210, '\0');  // only element 128 + 2 * 32 + 5 is set: half 1, run 2, lane 5
  q6_k[64 + 5] = 0x70;          // high nibble: 7
  q6_k[128 + 32 + 5] = 0x10;    // bit pair of run 2: 1, so 7 + 16 - 32 = -9
  for (int g = 0; g < 16; ++g) q6_k[static_cast<std::size_t>(192 + g)] = static_cast<char>(g + 1);
  q6_k[209] = 0x3c;
  const auto k = dequantize(format_of(StorageType::kQ6_K), q6_k);
  CHECK(k[128 + 64 + 5] == -9.0F * 13.0F);  // scale group 8 + 2 * 2 + 0
  CHECK(k[0] == -32.0F);
  CHECK(k[255] == -32.0F * 16.0F);
}

TEST_CASE("type names") {
  CHECK(gguf_type_name(12) == "Q4_K");
  CHECK(gguf_type_name(30) == "BF16");
  CHECK(gguf_type_name(4) == "unknown");
  CHECK(gguf_type_name(0xffffffff) == "unknown");
  CHECK(find_format(12) == nullptr);
}
