// IEEE half precision to and from float in plain code, for packing. (Kernels have their own: they share no inline function.)
#pragma once
#include <bit>
#include <cstdint>

namespace troupe::kernels::cpu {

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16, size = half & 0x7fffU;
  if (size >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (size & 0x3ffU) << 13);
  if (size < 0x0400U) {  // subnormal: units of 2^-24
    const float value = static_cast<float>(size) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((size << 13) + 0x38000000U));
}

/// half * 2^3, negated: exact below 8192, else infinite.
inline std::uint16_t minus_eight_times(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) ^ 0x8000U;
  std::uint32_t size = half & 0x7fffU;
  for (int i = 0; i < 3; ++i) {
    if (size < 0x0400U)
      size <<= 1;  // a subnormal doubles by its bits, into the normal range if need be
    else if (size < 0x7c00U)
      size = size + 0x0400U >= 0x7c00U ? 0x7c00U : size + 0x0400U;
  }
  return static_cast<std::uint16_t>(sign | size);
}

}  // namespace troupe::kernels::cpu
