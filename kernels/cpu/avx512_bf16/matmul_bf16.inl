// bf16 products by vdpbf16ps, which does what matmul_bf16_by_fma.inl does: fma of the odd, then of the even element of a pair, without
// denormals (kernel_lists.cpp checks that a machine's does). bf16 panels are read as they are; others are widened a chunk at a time.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kPairChunk = 128;  // pairs of inputs widened at a time: 24 KiB

void round_row(const float* x, int cols, float* to) {
  for (int i = 0; i < cols; i += 16) {
    const __m256bh rounded = _mm512_cvtneps_pbh(load(x + i, cols - i));
    std::memcpy(reinterpret_cast<std::uint16_t*>(to) + i, &rounded, sizeof rounded);
  }
}

TROUPE_INLINE __m512i make_pairs(Floats even, Floats odd) {
  const __m512bh both = _mm512_cvtne2ps_pbh(odd, even);  // 16 even, then 16 odd
  __m512i words;
  std::memcpy(&words, &both, sizeof words);
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_permutexvar_epi16(_mm512_or_si512(lanes, _mm512_slli_epi32(_mm512_add_epi32(lanes, set_int(16)), 16)), words);
}

/// Pairs [pair, pair + n) of a panel to w[n][48].
template <PanelFormat kFormat>
void widen_pairs(const FloatPanel& panel, int pair, int n, std::uint32_t* w) {
  int i = 0;
  for (; 2 * (pair + i) + kCell <= panel.inner && i < n; i += kCell / 2)
    for (int c = 0; c < kPanelColumns; c += 16) {
      Cell<kFormat> cell;
      cell.open(panel, 2 * (pair + i), c);
      std::uint32_t* to = w + i * kPanelColumns + c;
      TROUPE_UNROLL for (int q = 0; q < 4; ++q, to += 2 * kPanelColumns) {
        cell.take(q);
        _mm512_storeu_si512(to, make_pairs(cell.template weight<0>(), cell.template weight<1>()));
        _mm512_storeu_si512(to + kPanelColumns, make_pairs(cell.template weight<2>(), cell.template weight<3>()));
      }
    }
  for (; i < n; ++i)
    for (int c = 0; c < kPanelColumns; c += 16) {
      const int k = 2 * (pair + i);
      const Floats odd = k + 1 < panel.inner ? lone_weight<kFormat>(panel, k + 1, c) : zero();
      _mm512_storeu_si512(w + i * kPanelColumns + c, make_pairs(lone_weight<kFormat>(panel, k, c), odd));
    }
}

/// Adds pairs [0, n) of w[n][48] to kRows rows; `start` begins from zero. rows.x holds pairs.
template <int kRows>
TROUPE_NOINLINE void pair_tile(const FloatRows& rows, const std::uint32_t* w, int n, bool start) {
  Floats f[kRows][3];
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < 3; ++j) f[r][j] =
      start ? zero() : load(rows.y + r * rows.y_stride + 16 * j);
  for (int i = 0; i < n; ++i) {
    __m512bh b[3];
    TROUPE_UNROLL for (int j = 0; j < 3; ++j) std::memcpy(&b[j], w + i * kPanelColumns + 16 * j, sizeof b[j]);
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
      const __m512i pair = set_int(four_bytes(rows.x + r * rows.x_stride + i));
      __m512bh a;
      std::memcpy(&a, &pair, sizeof a);
      TROUPE_UNROLL for (int j = 0; j < 3; ++j) f[r][j] = _mm512_dpbf16_ps(f[r][j], a, b[j]);
    }
  }
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < 3; ++j)
      store(rows.y + r * rows.y_stride + 16 * j, f[r][j]);
}
template <int kRows>
void pair_tiles(FloatRows rows, std::size_t count, const std::uint32_t* w, int n, bool start) {
  for (; count >= kRows; count -= kRows, rows = rows.skip(kRows)) pair_tile<kRows>(rows, w, n, start);
  if constexpr (kRows > 1)
    if (count > 0) pair_tiles<kRows / 2>(rows, count, w, n, start);
}

template <PanelFormat kFormat>
void pair_panel(const FloatPanel& panel, const FloatRows& rows, std::size_t count) {
  alignas(64) std::uint32_t scratch[kPairChunk * kPanelColumns];
  const int pairs = (panel.inner + 1) / 2;
  for (int i = 0; i < pairs; i += kPairChunk) {
    const int n = pairs - i < kPairChunk ? pairs - i : kPairChunk;
    const std::uint32_t* w = scratch;
    if (kFormat == PanelFormat::kBF16)
      w = reinterpret_cast<const std::uint32_t*>(panel.bytes) + static_cast<std::size_t>(i) * kPanelColumns;
    else
      widen_pairs<kFormat>(panel, i, n, scratch);
    pair_tiles<8>({rows.x + i, rows.x_stride, rows.y, rows.y_stride}, count, w, n, i == 0);
  }
}

void multiply_bfloat(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  for_panels(p, row0, row1, panel0, panel1, [&](const FloatPanel& panel, const FloatRows& rows, std::size_t count) {
    switch (p.format) {
      case PanelFormat::kF32: pair_panel<PanelFormat::kF32>(panel, rows, count); break;
      case PanelFormat::kF16: pair_panel<PanelFormat::kF16>(panel, rows, count); break;
      case PanelFormat::kBF16: pair_panel<PanelFormat::kBF16>(panel, rows, count); break;
      case PanelFormat::kW4Group32: pair_panel<PanelFormat::kW4Group32>(panel, rows, count); break;
      case PanelFormat::kW8Group32: pair_panel<PanelFormat::kW8Group32>(panel, rows, count); break;
      case PanelFormat::kW8Group16: pair_panel<PanelFormat::kW8Group16>(panel, rows, count); break;
      case PanelFormat::kW8Channel: pair_panel<PanelFormat::kW8Channel>(panel, rows, count); break;
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
