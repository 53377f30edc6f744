// Products of fp32 activations with any weights: w is rounded to fp32 once, then y = fma(x_k, w_k, y) with k ascending and one
// accumulator an output. Few rows widen weights in registers. Many rows widen a chunk of inputs into scratch; the sums wait in y.
// The bf16 products of levels without bf16 instructions are the same, kPairs: weights rounded to bf16, the second of two inputs
// first (round_row swaps x), without denormals.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kFloatChunk = 128;  // inputs widened at a time: 24 KiB
static_assert(kFloatChunk % kCell == 0);

template <bool kPairs, int kIndex, PanelFormat kFormat>
TROUPE_INLINE Floats weight_of(const Cell<kFormat>& cell) {
  if constexpr (!kPairs) return cell.template weight<kIndex>();
  const Floats w = cell.template weight<kIndex ^ 1>();
  return kFormat == PanelFormat::kBF16 ? w : round_bfloat(w);
}
template <bool kPairs, PanelFormat kFormat>
TROUPE_INLINE Floats lone_weight_of(const FloatPanel& panel, int k, int column) {
  if constexpr (!kPairs) return lone_weight<kFormat>(panel, k, column);
  return (k ^ 1) < panel.inner ? round_bfloat(lone_weight<kFormat>(panel, k ^ 1, column)) : zero();
}
template <bool kPairs>
TROUPE_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
  return kPairs ? fma_flushed(a, b, c) : fma(a, b, c);
}

/// Inputs [k0, k0 + n) of a panel to w[n][48], zeros where there is none; k0 and, unless it is the end, n are multiples of kCell.
template <bool kPairs, PanelFormat kFormat>
void widen(const FloatPanel& panel, int k0, int n, float* w) {
  int k = 0;
  for (; k < n && k0 + k + kCell <= panel.inner; k += kCell)
    for (int c = 0; c < kPanelColumns; c += 16) {
      Cell<kFormat> cell;
      cell.open(panel, k0 + k, c);
      float* to = w + k * kPanelColumns + c;
      TROUPE_UNROLL for (int q = 0; q < 4; ++q, to += 4 * kPanelColumns) {
        cell.take(q);
        store(to, weight_of<kPairs, 0>(cell));
        store(to + kPanelColumns, weight_of<kPairs, 1>(cell));
        store(to + 2 * kPanelColumns, weight_of<kPairs, 2>(cell));
        store(to + 3 * kPanelColumns, weight_of<kPairs, 3>(cell));
      }
    }
  for (; k < n; ++k)
    for (int c = 0; c < kPanelColumns; c += 16) store(w + k * kPanelColumns + c, lone_weight_of<kPairs, kFormat>(panel, k0 + k, c));
}

/// What to fetch from memory meanwhile: `step` bytes of packed weights an input.
struct Ahead {
  const std::uint8_t* bytes;
  int step;
};

/// Adds inputs [0, n) of w[n][48] to kRows rows; `start` begins from zero.
template <bool kPairs, int kRows>
TROUPE_NOINLINE void float_tile(const FloatRows& rows, const float* w, int n, bool start, Ahead ahead) {
  constexpr int kVectors = kRows <= 2 ? 3 : kFloatVectors;
  for (int c = 0; c < kPanelColumns; c += 16 * kVectors) {
    Floats f[kRows][kVectors];
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) f[r][j] =
        start ? zero() : load(rows.y + r * rows.y_stride + c + 16 * j);
    for (int k = 0; k < n; ++k) {
      Floats b[kVectors];
      TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) b[j] = load(w + k * kPanelColumns + c + 16 * j);
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const Floats a = set(rows.x[r * rows.x_stride + k]);
        TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) f[r][j] = multiply_add<kPairs>(a, b[j], f[r][j]);
      }
      for (int i = 0; i < ahead.step; i += 64) _mm_prefetch(reinterpret_cast<const char*>(ahead.bytes) + k * ahead.step + i, _MM_HINT_T1);
    }
    ahead.step = 0;
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j)
        store(rows.y + r * rows.y_stride + c + 16 * j, f[r][j]);
  }
}
template <bool kPairs, int kRows>
void float_tiles(FloatRows rows, std::size_t count, const float* w, int n, bool start, Ahead ahead) {
  for (; count >= kRows; count -= kRows, rows = rows.skip(kRows), ahead.step = 0) float_tile<kPairs, kRows>(rows, w, n, start, ahead);
  if constexpr (kRows > 1)
    if (count > 0) float_tiles<kPairs, kRows == 6 ? 4 : kRows / 2>(rows, count, w, n, start, ahead);
}

template <bool kPairs, PanelFormat kFormat>
void many_rows(const FloatPanel& panel, const FloatRows& rows, std::size_t count, int first) {
  alignas(64) float scratch[kFloatChunk * kPanelColumns];
  const int inner = kPairs ? (panel.inner + 1) / 2 * 2 : panel.inner;
  for (int k = first; k < inner; k += kFloatChunk) {
    const int n = inner - k < kFloatChunk ? inner - k : kFloatChunk;
    const float* w = scratch;
    if (kFormat == PanelFormat::kF32 && !kPairs)
      w = reinterpret_cast<const float*>(panel.bytes) + static_cast<std::size_t>(k) * kPanelColumns;
    else
      widen<kPairs, kFormat>(panel, k, n, scratch);
    constexpr int kStep = Cell<kFormat>::kInputBytes;
    float_tiles<kPairs, kFloatRows>({rows.x + k, rows.x_stride, rows.y, rows.y_stride}, count, w, n, k == 0,
                                    {panel.bytes + static_cast<std::size_t>(k + n) * kStep, kStep});
  }
}

/// All whole cells for kRows rows, with weights widened in registers.
template <bool kPairs, PanelFormat kFormat, int kRows>
TROUPE_NOINLINE void few_rows(const FloatPanel& panel, const FloatRows& rows) {
  constexpr bool kScaled = kFormat != PanelFormat::kF32 && kFormat != PanelFormat::kF16 && kFormat != PanelFormat::kBF16;
  constexpr int kVectors = kScaled ? kWideningVectors : 3;
  for (int c = 0; c < kPanelColumns; c += 16 * kVectors) {
    Floats f[kRows][kVectors];
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) f[r][j] = zero();
    for (int k = 0; k + kCell <= panel.inner; k += kCell) {
      Cell<kFormat> cells[kVectors];
      TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) cells[j].open(panel, k, c + 16 * j);
      for (int q = 0; q < 4; ++q) {
        TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) cells[j].take(q);
        const float* x = rows.x + k + 4 * q;
        const auto add_input = [&]<int kIndex>() __attribute__((always_inline)) {
          Floats a[kRows];
          TROUPE_UNROLL for (int r = 0; r < kRows; ++r) a[r] = set(x[r * rows.x_stride + kIndex]);
          TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
            const Floats w = weight_of<kPairs, kIndex>(cells[j]);
            TROUPE_UNROLL for (int r = 0; r < kRows; ++r) f[r][j] = multiply_add<kPairs>(a[r], w, f[r][j]);
          }
        };
        add_input.template operator()<0>();
        add_input.template operator()<1>();
        add_input.template operator()<2>();
        add_input.template operator()<3>();
      }
    }
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j)
        store(rows.y + r * rows.y_stride + c + 16 * j, f[r][j]);
  }
}
template <bool kPairs, PanelFormat kFormat, int kRows>
void few(const FloatPanel& panel, const FloatRows& rows, std::size_t count) {
  if (count == kRows) return few_rows<kPairs, kFormat, kRows>(panel, rows);
  if constexpr (kRows > 1) few<kPairs, kFormat, kRows - 1>(panel, rows, count);
}

template <bool kPairs, PanelFormat kFormat>
void float_panel(const FloatPanel& panel, const FloatRows& rows, std::size_t count) {
  if (count > kWideningRows || panel.inner < kCell) return many_rows<kPairs, kFormat>(panel, rows, count, 0);
  few<kPairs, kFormat, kWideningRows>(panel, rows, count);
  if (panel.inner % kCell != 0) many_rows<kPairs, kFormat>(panel, rows, count, panel.inner / kCell * kCell);
}

template <bool kPairs>
TROUPE_INLINE void multiply_any(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  for_panels(p, row0, row1, panel0, panel1, [&](const FloatPanel& panel, const FloatRows& rows, std::size_t count) {
    switch (p.format) {
      case PanelFormat::kF32: float_panel<kPairs, PanelFormat::kF32>(panel, rows, count); break;
      case PanelFormat::kF16: float_panel<kPairs, PanelFormat::kF16>(panel, rows, count); break;
      case PanelFormat::kBF16: float_panel<kPairs, PanelFormat::kBF16>(panel, rows, count); break;
      case PanelFormat::kW4Group32: float_panel<kPairs, PanelFormat::kW4Group32>(panel, rows, count); break;
      case PanelFormat::kW8Group32: float_panel<kPairs, PanelFormat::kW8Group32>(panel, rows, count); break;
      case PanelFormat::kW8Group16: float_panel<kPairs, PanelFormat::kW8Group16>(panel, rows, count); break;
      case PanelFormat::kW8Channel: float_panel<kPairs, PanelFormat::kW8Channel>(panel, rows, count); break;
    }
  });
}

void multiply_float(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  multiply_any<false>(p, row0, row1, panel0, panel1);
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
