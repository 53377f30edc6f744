// Attention over int8 blocks. A kv head's slab: K [head_dim/4][32][4] as u8 (k + 128), V [8][head_dim][4] as s8, 32 fp32 scales of
// K, 32 of V; both matrices are also AMX B tiles. Scores and P.V are exact in int32.
// Unwritten slots are garbage, NaN scales included: they are masked before they meet a maximum or a sum.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

struct Int8Tile {
  const std::uint8_t* k;
  const std::int8_t* v;
  const float *k_scales, *v_scales;
};
TROUPE_INLINE Int8Tile int8_tile(const std::uint8_t* head, int head_dim) {
  const auto* scales = reinterpret_cast<const float*>(head + 2 * kBlockTokens * head_dim);
  return {head, reinterpret_cast<const std::int8_t*>(head + kBlockTokens * head_dim), scales, scales + kBlockTokens};
}

void store_int8(std::uint8_t* head, int head_dim, int slot, const float* k, const float* v) {
  Floats k_size = zero(), v_size = zero();
  for (int d = 0; d < head_dim; d += 16) {
    k_size = max(k_size, abs(load(k + d)));
    v_size = max(v_size, abs(load(v + d)));
  }
  float amax[4];
  maxima_of_four(k_size, v_size, zero(), zero(), amax);
  auto* scales = reinterpret_cast<float*>(head + 2 * kBlockTokens * head_dim);
  scales[slot] = amax[0] / 127.0F;
  scales[kBlockTokens + slot] = amax[1] / 127.0F;
  alignas(64) std::int8_t q[kMaxHeadDim];
  quantize(k, head_dim, inverse_scale(amax[0]), q);
  for (int d = 0; d < head_dim; d += 4) {
    const std::uint32_t biased = static_cast<std::uint32_t>(four_bytes(q + d)) ^ 0x80808080U;
    std::memcpy(head + d * kBlockTokens + slot * 4, &biased, 4);
  }
  const Floats factor = set(inverse_scale(amax[1]));
  std::uint8_t* values = head + kBlockTokens * head_dim + (slot / 4) * head_dim * 4 + slot % 4;
  for (int d = 0; d < head_dim; d += 16) store_every_fourth(values + d * 4, quantized(v + d, factor));
}

void quantize_query(const float* x, int head_dim, float scale, std::int8_t* q, float* q_scale, std::int32_t* q_sum) {
  const float amax = largest_magnitude(x, head_dim);
  *q_scale = (amax / 127.0F) * scale;
  *q_sum = quantize(x, head_dim, inverse_scale(amax), q);
}

/// Factors that turn e into P: w = vs * (255 / largest vs that is visible), and value = that scale / 255.
struct ValueFactors {
  Floats w0, w1;
  float value;
};
TROUPE_INLINE ValueFactors value_factors(const float* v_scales, int visible) {
  Floats a = load(v_scales), b = load(v_scales + 16);
  if (visible < kBlockTokens) {
    a = select(first(visible), a, zero());
    b = select(first(visible - 16), b, zero());
  }
  const float largest = low(max(max_of_lanes(max(a, b)), set(1e-30F)));
  const Floats inverse = set(255.0F / largest);
  return {mul(a, inverse), mul(b, inverse), largest * (1.0F / 255.0F)};
}

/// Sums that a product keeps going, so that the unit never waits for one: a row alone is cut into chains, which int32 allows.
constexpr int chains_of(int sums) { return sums >= kAttentionSums ? 1 : 2 * sums >= kAttentionSums ? 2 : 4; }

/// u = (q . k) * ks of kRows rows, and each row's maximum. kHeadDim 0: any. `visible` null: the whole tile. `next` is prefetched
/// into L2 (into L1 it is slower than none).
template <int kHeadDim, int kRows, bool kPrefetch>
TROUPE_NOINLINE void score_rows(const Int8Tile& tile, int any_dim, const std::int8_t* q, const std::int32_t* q_sum,
                                const std::int32_t* visible, float* scores, float* tile_max, const std::uint8_t* next) {
  constexpr int kChains = chains_of(kRows * kScoreVectors);
  const int head_dim = kHeadDim ? kHeadDim : any_dim;
  Floats best[kRows];
  TROUPE_UNROLL for (int half = 0; half < 2; half += kScoreVectors) {
    Ints sum[kChains][kRows][kScoreVectors];
    TROUPE_UNROLL for (int c = 0; c < kChains; ++c) TROUPE_UNROLL for (int r = 0; r < kRows; ++r)
        TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) sum[c][r][j] = c ? set_int(0) : bias(q_sum[r]);
    TROUPE_UNROLL for (int d0 = 0; d0 < head_dim / 4; d0 += kChains) TROUPE_UNROLL for (int c = 0; c < kChains; ++c) {
      const int d = d0 + c;
      UnsignedBytes k[kScoreVectors];
      TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) {
        const int at = d * 4 * kBlockTokens + (half + j) * 64;
        k[j] = load_unsigned(tile.k + at);
        if (kPrefetch) _mm_prefetch(reinterpret_cast<const char*>(next) + at, _MM_HINT_T1);
      }
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const SignedQuad a = signed_quad(four_bytes(q + r * head_dim + 4 * d));
        TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) sum[c][r][j] = dot_weights(sum[c][r][j], k[j], a);
      }
    }
    TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) {
      const int at = 16 * (half + j);
      const Floats scale = load(tile.k_scales + at);
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        Ints dot = sum[0][r][j];
        TROUPE_UNROLL for (int c = 1; c < kChains; ++c) dot = add(dot, sum[c][r][j]);
        Floats u = mul(to_floats(dot), scale);
        if (visible) u = select(first(visible[r] - at), u, set(kNever));
        best[r] = at ? max(best[r], u) : u;
        store(scores + kBlockTokens * r + at, u);
      }
    }
  }
  store_maxima<kRows>(best, tile_max);
}

/// out = out * keep + float(P . V) * factor for kRows rows.
template <int kHeadDim, int kRows, int kVectors, bool kPrefetch, bool kFold>
TROUPE_NOINLINE void value_rows(const Int8Tile& tile, int any_dim, const std::uint8_t* p, const float* keep, const float* factor,
                                float* out, const std::uint8_t* next) {
  constexpr int kChains = chains_of(kRows * kVectors);
  const int head_dim = kHeadDim ? kHeadDim : any_dim;
  for (int d = 0; d < head_dim; d += 16 * kVectors) {
    Ints sum[kChains][kRows][kVectors];
    TROUPE_UNROLL for (int c = 0; c < kChains; ++c) TROUPE_UNROLL for (int r = 0; r < kRows; ++r)
        TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[c][r][j] = set_int(0);
    TROUPE_UNROLL for (int step = 0; step < kBlockTokens / 4; ++step) {
      SignedBytes v[kVectors];
      TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
        const int at = (step * head_dim + d + 16 * j) * 4;
        v[j] = load_signed(tile.v + at);
        if (kPrefetch) _mm_prefetch(reinterpret_cast<const char*>(next) + at, _MM_HINT_T1);
      }
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const UnsignedQuad a = unsigned_quad(four_bytes(p + kBlockTokens * r + 4 * step));
        TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[step % kChains][r][j] = dot_values(sum[step % kChains][r][j], v[j], a);
      }
    }
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
      Ints dot = sum[0][r][j];
      TROUPE_UNROLL for (int c = 1; c < kChains; ++c) dot = add(dot, sum[c][r][j]);
      fold<kFold>(out + r * head_dim + d + 16 * j, to_floats(dot), keep[r], factor[r]);
    }
  }
}

/// Exponentials of the rows of one kv head, as P in u8. Arrays of rows begin with the head's own; `at` is its first in `s`.
template <bool kPrefetch, bool kFold>
TROUPE_INLINE void weigh_rows(const Int8Tile& tile, const TileWork& work, int rows, const float* q_scale, TileState& s, int at,
                              float* lanes, float* value_factor, std::uint8_t* p, const std::uint8_t* next_scales) {
  if (kPrefetch)
    for (int i = 0; i < 2 * kBlockTokens * 4; i += 64) _mm_prefetch(reinterpret_cast<const char*>(next_scales) + i, _MM_HINT_T1);
  const ValueFactors whole = value_factors(tile.v_scales, work.partial ? s.visible[rows - 1] : kBlockTokens);
  const auto weigh = [&](int r, Ints& p0, Ints& p1) __attribute__((always_inline)) {
    const int visible = work.partial ? s.visible[r] : kBlockTokens;
    // A row must not see the scale of a token behind it; rows of one position share the factors.
    ValueFactors factors = whole;
    if (work.partial && visible < kBlockTokens && visible != s.visible[rows - 1]) factors = value_factors(tile.v_scales, visible);
    Floats e0, e1;
    exponentials<kFold>(s.scores + (at + r) * kBlockTokens, q_scale[r], s.tile_max[at + r], visible, s.keep[at + r], s.take[at + r],
                        lanes + r * 16, e0, e1);
    value_factor[r] = s.take[at + r] * factors.value;
    p0 = to_ints(mul(e0, factors.w0));
    p1 = to_ints(mul(e1, factors.w1));
  };
  int r = work.from;
  for (; r + 2 <= rows; r += 2) {
    Ints a, b, c, d;
    weigh(r, a, b);
    weigh(r + 1, c, d);
    store_unsigned_bytes(p + r * kBlockTokens, a, b, c, d);
  }
  if (r < rows) {
    Ints a, b;
    weigh(r, a, b);
    store_unsigned_bytes(p + r * kBlockTokens, a);
    store_unsigned_bytes(p + r * kBlockTokens + 16, b);
  }
}

/// Phase by phase over all heads, so that the chains of one overlap with those of the next.
template <int kHeadDim, bool kPrefetch, bool kFold>
TROUPE_INLINE void attend_int8_tile(const AttentionRun& run, const TileWork& work, TileState& s) {
  const int head_dim = kHeadDim ? kHeadDim : run.head_dim, rows = run.rows, all = work.heads * rows;
  const float* q_scale = run.q_scale + work.query;
  float* value_factor = kFold ? s.value_factor : run.factor + work.state;
  alignas(64) std::uint8_t p[kMaxAttentionRows * kBlockTokens];

  for (int h = 0; h < work.heads; ++h) {
    const Int8Tile tile = int8_tile(work.block + h * run.head_bytes, head_dim);
    in_groups<kScoreRows>(
        work.from, rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
          const int i = h * rows + r;
          score_rows<kHeadDim, kRows, kPrefetch>(tile, head_dim, run.q + (work.query + i) * head_dim, run.q_sum + work.query + i,
                                                 work.partial ? s.visible + r : nullptr, s.scores + i * kBlockTokens, s.tile_max + i,
                                                 work.next + h * run.head_bytes);
        });
  }
  for (int r = work.from & ~15; r < all; r += 16) store(s.tile_max + r, mul(load(s.tile_max + r), load(q_scale + r)));
  fold_maxima<kFold>(run.max + work.state, all, work.from, s);
  for (int h = 0; h < work.heads; ++h) {
    const int i = h * rows;
    weigh_rows<kPrefetch, kFold>(int8_tile(work.block + h * run.head_bytes, head_dim), work, rows, q_scale + i, s, i,
                                 run.lanes + (work.state + i) * 16, value_factor + i, p + i * kBlockTokens,
                                 work.next + h * run.head_bytes + 2 * kBlockTokens * head_dim);
  }
  for (int h = 0; h < work.heads; ++h) {
    const Int8Tile tile = int8_tile(work.block + h * run.head_bytes, head_dim);
    in_groups<kValueRows>(
        work.from, rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
          constexpr int kVectors = kHeadDim ? kValueVectors : 1;
          const int i = h * rows + r;
          value_rows<kHeadDim, kRows, kVectors, kPrefetch, kFold>(tile, head_dim, p + i * kBlockTokens, s.keep + i, value_factor + i,
                                                                  run.out + (work.state + i) * head_dim,
                                                                  work.next + h * run.head_bytes + kBlockTokens * head_dim);
        });
  }
}

template <int kHeadDim>
void attend_int8_dim(const AttentionRun& run, int tile0, int tile1) {
  each_tile<8>(
      run, tile0, tile1, [&]<bool kPrefetch, bool kFold>(const TileWork& work, TileState& s) __attribute__((always_inline)) {
        attend_int8_tile<kHeadDim, kPrefetch, kFold>(run, work, s);
      });
}

void attend_int8(const AttentionRun& run, int tile0, int tile1) {
  if (run.head_dim == 64)
    attend_int8_dim<64>(run, tile0, tile1);
  else if (run.head_dim == 128)
    attend_int8_dim<128>(run, tile0, tile1);
  else
    attend_int8_dim<0>(run, tile0, tile1);
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
