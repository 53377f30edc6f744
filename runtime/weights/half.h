// fp16 and bf16 to fp32 in plain integer arithmetic: exact, the same on every machine, no F16C needed. For load-time code only.
#pragma once
#include <bit>
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

}  // namespace troupe::weights
