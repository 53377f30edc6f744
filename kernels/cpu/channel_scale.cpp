#include "kernels/cpu/channel_scale.h"

#include "kernels/cpu/kernel_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe::kernels::cpu {
namespace {

constexpr std::size_t kColumns = kPanelColumns;

std::size_t offset(std::size_t k, std::size_t column) { return k / 4 * 4 * kColumns + column * 4 + k % 4; }
std::size_t scale_offset(std::size_t cols, std::size_t column) { return cols * kColumns + column * sizeof(float); }
float finite(float w) { return std::isfinite(w) ? w : 0.0F; }

}  // namespace

void quantize_channel(const float* row, std::size_t cols, std::uint8_t* panel, std::size_t column) {
  float amax = 0;
  for (std::size_t k = 0; k < cols; ++k) amax = std::max(amax, std::abs(finite(row[k])));
  const bool tiny = amax <= 0x1p-100F;  // 127 / amax would not be finite
  const float scale = tiny ? 0.0F : amax / 127.0F, inverse = tiny ? 0.0F : 127.0F / amax;
  for (std::size_t k = 0; k < cols; ++k) {
    const float q = std::nearbyint(std::clamp(finite(row[k]) * inverse, -127.0F, 127.0F));
    panel[offset(k, column)] = static_cast<std::uint8_t>(static_cast<int>(q) + 128);
  }
  std::memcpy(panel + scale_offset(cols, column), &scale, sizeof scale);
}

void unpack_channel(const std::uint8_t* panel, std::size_t cols, std::size_t column, float* row) {
  float scale = 0;
  std::memcpy(&scale, panel + scale_offset(cols, column), sizeof scale);
  for (std::size_t k = 0; k < cols; ++k) row[k] = static_cast<float>(panel[offset(k, column)] - 128) * scale;
}

}  // namespace troupe::kernels::cpu
