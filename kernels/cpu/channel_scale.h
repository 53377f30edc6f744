// Weights with one scale an output (w8_channel): quantized anew from exact values, whatever the file holds. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cpu {

/// Inputs that exact int32 sums of 8-bit products can take.
constexpr std::size_t kMaxChannelInputs = 65536;

/// Symmetric: scale = amax / 127, q = nearest(w * (127 / amax)), in the panel as q + 128; the scale lies behind the groups. Values that
/// are not finite, and rows whose largest value is below 2^-100, count as 0. `cols`: a multiple of 32.
void quantize_channel(const float* row, std::size_t cols, std::uint8_t* panel, std::size_t column);
/// q * scale, rounded once.
void unpack_channel(const std::uint8_t* panel, std::size_t cols, std::size_t column, float* row);

}  // namespace troupe::kernels::cpu
