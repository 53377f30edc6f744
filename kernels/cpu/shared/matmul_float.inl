// Products of fp32 activations with any weights: w is rounded to fp32 once, then y = fma(x_k, w_k, y) with k ascending and one
// accumulator an output. Quantized panels are widened a chunk of inputs at a time; the running sums wait in y meanwhile.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kFloatChunk = 256;  // inputs widened at a time: 48 KiB

/// Inputs [k0, k1) of a panel to w[k1 - k0][48]; k0 a multiple of 32.
void widen_w4(const std::uint8_t* panel, int k0, int k1, float* w) {
  for (int g = k0 / kGroup; g < k1 / kGroup; ++g, w += kGroup * kPanelColumns) {
    const std::uint8_t* group = panel + static_cast<std::size_t>(g) * kW4GroupBytes;
    const auto* scales = reinterpret_cast<const std::uint16_t*>(group + kNibbleBytes);
    for (int c = 0; c < kPanelColumns; c += 16) {
      const Floats scale = load_half(scales + c), minimum = load_half(scales + kPanelColumns + c);
      for (int k = 0; k < kGroup; ++k) {
        const std::uint8_t* quads = group + (k % 16 / 4) * 4 * kPanelColumns + 4 * c;
        store(w + k * kPanelColumns + c, fma(field(quads, 8 * (k % 4) + (k < 16 ? 0 : 4), 15), scale, minimum));
      }
    }
  }
}
template <bool kHalves>
void widen_w8(const std::uint8_t* panel, int k0, int k1, float* w) {
  constexpr int kGroupBytes = kHalves ? kW8HalfGroupBytes : kW8GroupBytes;
  for (int g = k0 / kGroup; g < k1 / kGroup; ++g, w += kGroup * kPanelColumns) {
    const std::uint8_t* group = panel + static_cast<std::size_t>(g) * kGroupBytes;
    for (int k = 0; k < kGroup; ++k)
      for (int c = 0; c < kPanelColumns; c += 16) {
        Floats scale;
        if constexpr (kHalves)
          scale = load(reinterpret_cast<const float*>(group + kByteBytes) + (k / 16) * kPanelColumns + c);
        else
          scale = load_half(reinterpret_cast<const std::uint16_t*>(group + kByteBytes) + c);
        const Floats q = sub(field(group + (k / 4) * 4 * kPanelColumns + 4 * c, 8 * (k % 4), 255), set(128.0F));
        store(w + k * kPanelColumns + c, mul(q, scale));
      }
  }
}
/// One scale an output, behind all of the panel's groups.
void widen_w8_channel(const std::uint8_t* panel, int inner, int k0, int k1, float* w) {
  const auto* scales = reinterpret_cast<const float*>(panel + static_cast<std::size_t>(inner) * kPanelColumns);
  for (int k = k0; k < k1; ++k, w += kPanelColumns)
    for (int c = 0; c < kPanelColumns; c += 16) {
      const std::uint8_t* quads = panel + static_cast<std::size_t>(k / 4) * 4 * kPanelColumns + 4 * c;
      store(w + c, mul(sub(field(quads, 8 * (k % 4), 255), set(128.0F)), load(scales + c)));
    }
}
template <bool kBrain>
void widen_16(const std::uint8_t* panel, int k0, int k1, float* w) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(panel) + static_cast<std::size_t>(k0) * kPanelColumns;
  for (int i = 0; i < (k1 - k0) * kPanelColumns; i += 16) store(w + i, kBrain ? load_bfloat(from + i) : load_half(from + i));
}

/// Adds inputs [0, n) of w[n][48] to kRows rows; `start` begins from zero.
template <int kRows>
TROUPE_NOINLINE void float_tile(const float* x, std::size_t x_stride, const float* w, int n, bool start, float* y, std::size_t y_stride) {
  for (int c = 0; c < kPanelColumns; c += 16 * kFloatVectors) {
    Floats f[kRows][kFloatVectors];
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kFloatVectors; ++j) f[r][j] =
        start ? zero() : load(y + r * y_stride + c + 16 * j);
    for (int k = 0; k < n; ++k) {
      Floats b[kFloatVectors];
      TROUPE_UNROLL for (int j = 0; j < kFloatVectors; ++j) b[j] = load(w + k * kPanelColumns + c + 16 * j);
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const Floats a = set(x[r * x_stride + k]);
        TROUPE_UNROLL for (int j = 0; j < kFloatVectors; ++j) f[r][j] = fma(a, b[j], f[r][j]);
      }
    }
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kFloatVectors; ++j)
        store(y + r * y_stride + c + 16 * j, f[r][j]);
  }
}

void float_panel(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel, float* y, std::size_t y_stride) {
  alignas(64) float scratch[kFloatChunk * kPanelColumns];
  const std::uint8_t* bytes = p.panels + panel * p.panel_bytes;
  if (p.inner == 0) return;
  for (int k0 = 0; k0 < p.inner; k0 += kFloatChunk) {
    const int k1 = p.inner - k0 < kFloatChunk ? p.inner : k0 + kFloatChunk;
    const float* w = scratch;
    switch (p.format) {
      case PanelFormat::kF32: w = reinterpret_cast<const float*>(bytes) + static_cast<std::size_t>(k0) * kPanelColumns; break;
      case PanelFormat::kF16: widen_16<false>(bytes, k0, k1, scratch); break;
      case PanelFormat::kBF16: widen_16<true>(bytes, k0, k1, scratch); break;
      case PanelFormat::kW4Group32: widen_w4(bytes, k0, k1, scratch); break;
      case PanelFormat::kW8Group32: widen_w8<false>(bytes, k0, k1, scratch); break;
      case PanelFormat::kW8Group16: widen_w8<true>(bytes, k0, k1, scratch); break;
      case PanelFormat::kW8Channel: widen_w8_channel(bytes, p.inner, k0, k1, scratch); break;
    }
    std::size_t r = row0;
    for (; r + kFloatRows <= row1; r += kFloatRows)
      float_tile<kFloatRows>(p.x + r * p.x_stride + k0, p.x_stride, w, k1 - k0, k0 == 0, y + (r - row0) * y_stride, y_stride);
    for (; r < row1; ++r) float_tile<1>(p.x + r * p.x_stride + k0, p.x_stride, w, k1 - k0, k0 == 0, y + (r - row0) * y_stride, y_stride);
  }
}

void multiply_float(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  alignas(64) float tail[kRowBlock * kPanelColumns];
  for (std::size_t first_row = row0; first_row < row1; first_row += kRowBlock) {
    const std::size_t end = row1 - first_row < kRowBlock ? row1 : first_row + kRowBlock;
    for (std::size_t panel = panel0; panel < panel1; ++panel) {
      const std::size_t column = panel * kPanelColumns;
      float* y = p.y + first_row * p.y_stride + column;
      if (column + kPanelColumns <= p.columns) {
        float_panel(p, first_row, end, panel, y, p.y_stride);
        continue;
      }
      float_panel(p, first_row, end, panel, tail, kPanelColumns);
      for (std::size_t r = 0; r < end - first_row; ++r)
        std::memcpy(y + r * p.y_stride, tail + r * kPanelColumns, (p.columns - column) * sizeof(float));
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
