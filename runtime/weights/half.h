// fp16 and bf16 to fp32, exact, and fp32 to fp16, in plain arithmetic: the same on every machine, no F16C needed. For code that reads or
// writes files only.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace troupe::weights {

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24, which fp32 holds exactly
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xffU : exponent + 112;  // infinity and NaN keep the top exponent
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// Nearest even; too large becomes infinity.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x1p-14F)  // subnormal: steps of 2^-24; nearbyint rounds to even
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24F)));
  const std::uint32_t rebased = (bits & 0x7fffffffU) - (112U << 23);
  const std::uint32_t rounded = rebased + 0xfffU + (rebased >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

}  // namespace troupe::weights
