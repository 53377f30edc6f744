// Products of int8 activations with 4- and 8-bit weights. Exact int32 dot products inside a group, then one fp32 step a group in
// ascending order, the same for every number of rows: a row never depends on the batch.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kNibbleBytes = kPanelColumns * 16, kByteBytes = kPanelColumns * 32;
constexpr int kW4GroupBytes = kNibbleBytes + kPanelColumns * 4;    // nibbles, 48 fp16 scales, 48 fp16 minima
constexpr int kW8GroupBytes = kByteBytes + kPanelColumns * 2;      // bytes, 48 fp16 scales
constexpr int kW8HalfGroupBytes = kByteBytes + kPanelColumns * 8;  // bytes, 2 x 48 fp32 scales
constexpr int kRowBlock = 64;                                      // rows that share a sweep over the panels
constexpr int kPrefetchBytes = 8192;                               // ahead of the stream of weights, for any number of rows

/// Rows [row, row + kRows) x 16 * kProductVectors columns from `column` of one panel.
struct TileArgs {
  const QuantizedRows* rows;
  std::size_t row;
  const std::uint8_t* panel;
  int groups, column;
  float* y;
  std::size_t y_stride;
};

template <bool kPerGroup, int kRows>
TROUPE_NOINLINE void tile_w4(const TileArgs& t) {
  const QuantizedRows& x = *t.rows;
  const std::size_t groups = static_cast<std::size_t>(t.groups);
  const std::int8_t* q = x.values + t.row * x.stride;
  const std::uint8_t* w = t.panel;
  Floats f[kRows][kProductVectors];
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) f[r][j] = zero();
  for (int g = 0; g < t.groups; ++g, w += kW4GroupBytes) {
    // One row alone would wait for each product; separate sums of the two halves keep two chains busy.
    constexpr int kChains = kRows == 1 ? 2 : 1;
    NibbleSum sum[kChains][kRows][kProductVectors];
    TROUPE_UNROLL for (int c = 0; c < kChains; ++c) TROUPE_UNROLL for (int r = 0; r < kRows; ++r)
        TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) sum[c][r][j] = no_nibbles();
    TROUPE_UNROLL for (int k = 0; k < 4; ++k) {
      Nibbles lower[kProductVectors], upper[kProductVectors];
      TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) {
        const Nibbles both = load_nibbles(w + k * 4 * kPanelColumns + t.column * 4 + j * 64);
        lower[j] = low_nibbles(both);
        upper[j] = high_nibbles(both);
      }
      TROUPE_UNROLL for (int j = 0; j <= kProductVectors; ++j)
          _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchBytes + k * 256 + t.column * 4 + j * 64, _MM_HINT_T0);
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const std::int8_t* a = q + r * x.stride + g * kGroup;
        const SignedQuad a_lower = signed_quad(four_bytes(a + 4 * k)), a_upper = signed_quad(four_bytes(a + 16 + 4 * k));
        TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) {
          sum[0][r][j] = dot_nibbles(sum[0][r][j], lower[j], a_lower);
          sum[kChains - 1][r][j] = dot_nibbles(sum[kChains - 1][r][j], upper[j], a_upper);
        }
      }
    }
    const auto* scales = reinterpret_cast<const std::uint16_t*>(w + kNibbleBytes) + t.column;
    TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) {
      const Floats scale = load_half(scales + 16 * j), minimum = load_half(scales + kPanelColumns + 16 * j);
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const std::size_t i = (t.row + r) * groups + g;
        NibbleSum dot = sum[0][r][j];
        if (kChains == 2) dot = join(dot, sum[kChains - 1][r][j]);
        const Floats factor = kPerGroup ? mul(scale, set(x.scales[i])) : scale;
        f[r][j] = fma(to_floats(nibble_total(dot)), factor, fma(set(x.scaled_sums[i]), minimum, f[r][j]));
      }
    }
  }
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) {
    const Floats y = kPerGroup ? f[r][j] : mul(f[r][j], set(x.scales[(t.row + r) * groups]));
    store(t.y + r * t.y_stride + 16 * j, y);
  }
}

/// kHalves: a weight scale for each 16 inputs (Q6_K) instead of 32.
template <bool kPerGroup, bool kHalves, int kRows>
TROUPE_NOINLINE void tile_w8(const TileArgs& t) {
  constexpr int kParts = kHalves ? 2 : 1, kSteps = 8 / kParts;
  constexpr int kStepBytes = 4 * kPanelColumns;
  constexpr int kGroupBytes = kHalves ? kW8HalfGroupBytes : kW8GroupBytes;
  const QuantizedRows& x = *t.rows;
  const std::size_t groups = static_cast<std::size_t>(t.groups);
  const std::int8_t* q = x.values + t.row * x.stride;
  const std::uint8_t* w = t.panel;
  Floats f[kRows][kProductVectors];
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) f[r][j] = zero();
  for (int g = 0; g < t.groups; ++g, w += kGroupBytes) {
    TROUPE_UNROLL for (int part = 0; part < kParts; ++part) {
      Ints sum[kRows][kProductVectors];
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const std::int32_t* halves = x.half_sums + 2 * ((t.row + r) * groups + g);
        const Ints start = bias(kHalves ? halves[part] : halves[0] + halves[1]);
        TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) sum[r][j] = start;
      }
      TROUPE_UNROLL for (int k = part * kSteps; k < (part + 1) * kSteps; ++k) {
        UnsignedBytes b[kProductVectors];
        TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) b[j] = load_unsigned(w + k * kStepBytes + t.column * 4 + j * 64);
        TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j)
            _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchBytes + k * kStepBytes + t.column * 4 + j * 64, _MM_HINT_T0);
        TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
          const SignedQuad a = signed_quad(four_bytes(q + r * x.stride + g * kGroup + 4 * k));
          TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) sum[r][j] = dot_weights(sum[r][j], b[j], a);
        }
      }
      TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) {
        Floats scale;
        if constexpr (kHalves)
          scale = load(reinterpret_cast<const float*>(w + kByteBytes) + part * kPanelColumns + t.column + 16 * j);
        else
          scale = load_half(reinterpret_cast<const std::uint16_t*>(w + kByteBytes) + t.column + 16 * j);
        TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
          const Floats factor = kPerGroup ? mul(scale, set(x.scales[(t.row + r) * groups + g])) : scale;
          f[r][j] = fma(to_floats(sum[r][j]), factor, f[r][j]);
        }
      }
    }
  }
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kProductVectors; ++j) {
    const Floats y = kPerGroup ? f[r][j] : mul(f[r][j], set(x.scales[(t.row + r) * groups]));
    store(t.y + r * t.y_stride + 16 * j, y);
  }
}

template <PanelFormat kFormat, bool kPerGroup, int kRows>
TROUPE_INLINE void panel_tile(TileArgs t) {
  for (int column = 0; column < kPanelColumns; column += 16 * kProductVectors) {
    TileArgs part = t;
    part.column = column;
    part.y += column;
    if constexpr (kFormat == PanelFormat::kW4Group32)
      tile_w4<kPerGroup, kRows>(part);
    else
      tile_w8<kPerGroup, kFormat == PanelFormat::kW8Group16, kRows>(part);
  }
}

/// Rows [row0, row1) of one panel, in tiles of kProductRows and one smaller tile at the end.
template <PanelFormat kFormat, bool kPerGroup>
void panel_rows(const Int8Product& p, std::size_t row0, std::size_t row1, std::size_t panel, float* y, std::size_t y_stride) {
  TileArgs t{&p.rows, row0, p.panels + panel * p.panel_bytes, p.groups, 0, y, y_stride};
  for (; t.row + kProductRows <= row1; t.row += kProductRows, t.y += kProductRows * y_stride)
    panel_tile<kFormat, kPerGroup, kProductRows>(t);
  if constexpr (kProductRows > 1) {
    const std::size_t left = row1 - t.row;
    if (kProductRows > 3 && left == 3) panel_tile<kFormat, kPerGroup, 3>(t);
    if (kProductRows > 2 && left == 2) panel_tile<kFormat, kPerGroup, 2>(t);
    if (left == 1) panel_tile<kFormat, kPerGroup, 1>(t);
  }
}

template <PanelFormat kFormat, bool kPerGroup>
void multiply_format(const Int8Product& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  alignas(64) float tail[kRowBlock * kPanelColumns];  // of the last panel, which may be wider than y
  for (std::size_t first_row = row0; first_row < row1; first_row += kRowBlock) {
    const std::size_t end = row1 - first_row < kRowBlock ? row1 : first_row + kRowBlock;
    for (std::size_t panel = panel0; panel < panel1; ++panel) {
      const std::size_t column = panel * kPanelColumns;
      float* y = p.y + first_row * p.y_stride + column;
      if (column + kPanelColumns <= p.columns) {
        panel_rows<kFormat, kPerGroup>(p, first_row, end, panel, y, p.y_stride);
        continue;
      }
      panel_rows<kFormat, kPerGroup>(p, first_row, end, panel, tail, kPanelColumns);
      for (std::size_t r = 0; r < end - first_row; ++r)
        std::memcpy(y + r * p.y_stride, tail + r * kPanelColumns, (p.columns - column) * sizeof(float));
    }
  }
}

template <PanelFormat kFormat>
void multiply_scheme(const Int8Product& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  if (p.rows.per_group)
    multiply_format<kFormat, true>(p, row0, row1, panel0, panel1);
  else
    multiply_format<kFormat, false>(p, row0, row1, panel0, panel1);
}

void multiply_int8(const Int8Product& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  switch (p.format) {
    case PanelFormat::kW4Group32: multiply_scheme<PanelFormat::kW4Group32>(p, row0, row1, panel0, panel1); break;
    case PanelFormat::kW8Group32: multiply_scheme<PanelFormat::kW8Group32>(p, row0, row1, panel0, panel1); break;
    case PanelFormat::kW8Group16: multiply_scheme<PanelFormat::kW8Group16>(p, row0, row1, panel0, panel1); break;
    default: break;  // float panels have no int8 product
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
