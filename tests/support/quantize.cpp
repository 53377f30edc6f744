#include "tests/support/quantize.h"

#include "messages/error.h"
#include "runtime/weights/half.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace troupe::test {
namespace {
using kernels::StorageType;

void put_half(std::string& out, float value) {
  const std::uint16_t bits = weights::float_to_half(value);
  out += static_cast<char>(bits & 0xff);
  out += static_cast<char>(bits >> 8);
}

/// value / scale to the nearest integer of [low, high]; 0 when the scale is 0.
int level(float value, float scale, int low, int high) {
  if (scale == 0.0F) return std::clamp(0, low, high);
  return std::clamp(static_cast<int>(std::lround(value / scale)), low, high);
}
/// The scale as the file will hold it, so that the levels fit what is read back.
float stored(float scale) { return weights::half_to_float(weights::float_to_half(scale)); }
float largest(std::span<const float> values) {
  float most = 0.0F;
  for (const float value : values) most = std::max(most, std::fabs(value));
  return most;
}

void q8_0_block(std::span<const float> values, std::string& out) {
  const float scale = stored(largest(values) / 127.0F);
  put_half(out, scale);
  for (const float value : values) out += static_cast<char>(level(value, scale, -127, 127));
}

void put_nibbles(const std::array<int, 32>& levels, std::string& out) {
  for (std::size_t i = 0; i < 16; ++i) out += static_cast<char>(levels[i] | levels[i + 16] << 4);
}

void q4_0_block(std::span<const float> values, std::string& out) {
  const float scale = stored(largest(values) / 7.0F);
  put_half(out, scale);
  std::array<int, 32> levels{};
  for (std::size_t i = 0; i < 32; ++i) levels[i] = level(values[i], scale, -8, 7) + 8;
  put_nibbles(levels, out);
}

void q4_1_block(std::span<const float> values, std::string& out) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const float minimum = stored(*least), scale = stored((*most - *least) / 15.0F);
  put_half(out, scale);
  put_half(out, minimum);
  std::array<int, 32> levels{};
  for (std::size_t i = 0; i < 32; ++i) levels[i] = level(values[i] - minimum, scale, 0, 15);
  put_nibbles(levels, out);
}

/// Layout: see dequantize_q6_k in runtime/weights/format_table.cpp.
void q6_k_block(std::span<const float> values, std::string& out) {
  std::array<float, 16> fine{};
  for (std::size_t g = 0; g < 16; ++g) fine[g] = largest(values.subspan(16 * g, 16)) / 31.0F;
  const float super_scale = stored(*std::max_element(fine.begin(), fine.end()) / 127.0F);
  std::array<unsigned char, 208> block{};
  std::array<int, 16> scales{};
  for (std::size_t g = 0; g < 16; ++g) {
    scales[g] = level(fine[g], super_scale, 0, 127);
    block[192 + g] = static_cast<unsigned char>(scales[g]);
  }
  for (std::size_t i = 0; i < 256; ++i) {
    const float scale = super_scale * static_cast<float>(scales[i / 16]);
    const int value = level(values[i], scale, -32, 31) + 32;
    const std::size_t half = i / 128, run = i % 128 / 32, lane = i % 32;
    block[64 * half + lane + (run % 2) * 32] |= static_cast<unsigned char>((value & 15) << (run < 2 ? 0 : 4));
    block[128 + 32 * half + lane] |= static_cast<unsigned char>((value >> 4) << (2 * run));
  }
  out.append(reinterpret_cast<const char*>(block.data()), block.size());
  put_half(out, super_scale);
}

template <std::size_t kElements, class Block>
std::string by_blocks(std::span<const float> values, Block block) {
  TROUPE_CHECK(values.size() % kElements == 0);
  std::string out;
  for (std::size_t i = 0; i < values.size(); i += kElements) block(values.subspan(i, kElements), out);
  return out;
}

}  // namespace

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

std::string quantize(StorageType type, std::span<const float> values) {
  switch (type) {
    case StorageType::kF32: return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    case StorageType::kF16: return by_blocks<1>(values, [](std::span<const float> v, std::string& out) { put_half(out, v[0]); });
    case StorageType::kBF16:
      return by_blocks<1>(values, [](std::span<const float> v, std::string& out) {
        const std::uint16_t bits = float_to_bf16(v[0]);
        out += static_cast<char>(bits & 0xff);
        out += static_cast<char>(bits >> 8);
      });
    case StorageType::kQ8_0: return by_blocks<32>(values, q8_0_block);
    case StorageType::kQ4_0: return by_blocks<32>(values, q4_0_block);
    case StorageType::kQ4_1: return by_blocks<32>(values, q4_1_block);
    case StorageType::kQ6_K: return by_blocks<256>(values, q6_k_block);
  }
  throw InvariantViolation("unknown storage type");
}

}  // namespace troupe::test
