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
  alignas(64) std::int8_t q[kMaxHeadDim];
  const float k_max = largest_magnitude(k, head_dim), v_max = largest_magnitude(v, head_dim);
  auto* scales = reinterpret_cast<float*>(head + 2 * kBlockTokens * head_dim);
  scales[slot] = k_max / 127.0F;
  scales[kBlockTokens + slot] = v_max / 127.0F;
  quantize(k, head_dim, inverse_scale(k_max), q);
  for (int d = 0; d < head_dim; ++d) head[(d / 4) * 4 * kBlockTokens + slot * 4 + d % 4] = static_cast<std::uint8_t>(q[d] + 128);
  quantize(v, head_dim, inverse_scale(v_max), q);
  std::uint8_t* values = head + kBlockTokens * head_dim + (slot / 4) * head_dim * 4 + slot % 4;
  for (int d = 0; d < head_dim; ++d) values[d * 4] = static_cast<std::uint8_t>(q[d]);
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

/// u = (q . k) * ks of kRows rows, and each row's maximum. kHeadDim 0: any. `visible` null: the whole tile. `next` is prefetched
/// into L2 (into L1 it is slower than none).
template <int kHeadDim, int kRows, bool kPrefetch>
TROUPE_NOINLINE void score_rows(const Int8Tile& tile, int any_dim, const std::int8_t* q, const std::int32_t* q_sum,
                                const std::int32_t* visible, float* scores, float* tile_max, const std::uint8_t* next) {
  const int head_dim = kHeadDim ? kHeadDim : any_dim;
  Floats best[kRows];
  TROUPE_UNROLL for (int half = 0; half < 2; half += kScoreVectors) {
    Ints sum[kRows][kScoreVectors];
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) sum[r][j] = bias(q_sum[r]);
    TROUPE_UNROLL for (int d = 0; d < head_dim / 4; ++d) {
      UnsignedBytes k[kScoreVectors];
      TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) {
        const int at = d * 4 * kBlockTokens + (half + j) * 64;
        k[j] = load_unsigned(tile.k + at);
        if (kPrefetch) _mm_prefetch(reinterpret_cast<const char*>(next) + at, _MM_HINT_T1);
      }
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const SignedQuad a = signed_quad(four_bytes(q + r * head_dim + 4 * d));
        TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) sum[r][j] = dot_weights(sum[r][j], k[j], a);
      }
    }
    TROUPE_UNROLL for (int j = 0; j < kScoreVectors; ++j) {
      const int at = 16 * (half + j);
      const Floats scale = load(tile.k_scales + at);
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        Floats u = mul(to_floats(sum[r][j]), scale);
        if (visible) u = select(first(visible[r] - at), u, set(kNever));
        best[r] = at ? max(best[r], u) : u;
        store(scores + kBlockTokens * r + at, u);
      }
    }
  }
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) tile_max[r] = low(max_of_lanes(best[r]));
}

/// out = out * keep + float(P . V) * factor for kRows rows.
template <int kHeadDim, int kRows, int kVectors, bool kPrefetch>
TROUPE_NOINLINE void value_rows(const Int8Tile& tile, int any_dim, const std::uint8_t* p, const float* keep, const float* factor,
                                float* out, const std::uint8_t* next) {
  const int head_dim = kHeadDim ? kHeadDim : any_dim;
  for (int d = 0; d < head_dim; d += 16 * kVectors) {
    Ints sum[kRows][kVectors];
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[r][j] = set_int(0);
    TROUPE_UNROLL for (int step = 0; step < kBlockTokens / 4; ++step) {
      SignedBytes v[kVectors];
      TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
        const int at = (step * head_dim + d + 16 * j) * 4;
        v[j] = load_signed(tile.v + at);
        if (kPrefetch) _mm_prefetch(reinterpret_cast<const char*>(next) + at, _MM_HINT_T1);
      }
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const UnsignedQuad a = unsigned_quad(four_bytes(p + kBlockTokens * r + 4 * step));
        TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[r][j] = dot_values(sum[r][j], v[j], a);
      }
    }
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
      float* at = out + r * head_dim + d + 16 * j;
      store(at, fma(to_floats(sum[r][j]), set(factor[r]), mul(load(at), set(keep[r]))));
    }
  }
}

/// Calls op<rows>(first) for rows [from, to) in groups of kAttentionTile and one smaller group.
template <typename Op>
TROUPE_INLINE void in_groups(int from, int to, Op op) {
  int r = from;
  for (; r + kAttentionTile <= to; r += kAttentionTile) op.template operator()<kAttentionTile>(r);
  if constexpr (kAttentionTile > 1) {
    if (to - r == 3) op.template operator()<3>(r);
    if (to - r == 2) op.template operator()<2>(r);
    if (to - r == 1) op.template operator()<1>(r);
  }
}

/// One tile, one kv head, rows from `from` on.
template <int kHeadDim, bool kPrefetch>
TROUPE_INLINE void attend_int8_tile(const AttentionRun& run, int head, const std::uint8_t* block, const std::uint8_t* next, int from,
                                    bool partial, TileState& s) {
  const int head_dim = kHeadDim ? kHeadDim : run.head_dim;
  const std::size_t base = static_cast<std::size_t>(head) * run.row_stride;
  const std::int8_t* q = run.q + base * head_dim;
  const float* q_scale = run.q_scale + base;
  float* lanes = run.lanes + base * 16;
  float* out = run.out + base * head_dim;
  const Int8Tile tile = int8_tile(block + head * run.head_bytes, head_dim);
  const std::uint8_t* next_head = next + head * run.head_bytes;
  alignas(64) std::uint8_t p[kMaxAttentionRows * kBlockTokens];

  in_groups(
      from, run.rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
        score_rows<kHeadDim, kRows, kPrefetch>(tile, head_dim, q + r * head_dim, run.q_sum + base + r, partial ? s.visible + r : nullptr,
                                               s.scores + r * kBlockTokens, s.tile_max + r, next_head);
      });
  for (int r = from & ~15; r < run.rows; r += 16) store(s.tile_max + r, mul(load(s.tile_max + r), load(q_scale + r)));
  fold_maxima(run.max + base, run.rows, from, s);
  const ValueFactors whole = value_factors(tile.v_scales, partial ? s.visible[run.rows - 1] : kBlockTokens);
  for (int r = from; r < run.rows; ++r) {
    const int visible = partial ? s.visible[r] : kBlockTokens;
    // A row must not see the scale of a token behind it; rows of one position share the factors.
    ValueFactors factors = whole;
    if (partial && visible < kBlockTokens && visible != s.visible[run.rows - 1]) factors = value_factors(tile.v_scales, visible);
    Floats e0, e1;
    exponentials(s.scores + r * kBlockTokens, q_scale[r], s.tile_max[r], visible, s.keep[r], s.take[r], lanes + r * 16, e0, e1);
    s.value_factor[r] = s.take[r] * factors.value;
    store_unsigned_bytes(p + r * kBlockTokens, to_ints(mul(e0, factors.w0)));
    store_unsigned_bytes(p + r * kBlockTokens + 16, to_ints(mul(e1, factors.w1)));
  }
  in_groups(
      from, run.rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
        constexpr int kVectors = kHeadDim ? kValueVectors : 1;
        value_rows<kHeadDim, kRows, kVectors, kPrefetch>(tile, head_dim, p + r * kBlockTokens, s.keep + r, s.value_factor + r,
                                                         out + r * head_dim, next_head + kBlockTokens * head_dim);
      });
}

template <int kHeadDim, bool kPrefetch>
void attend_int8_tiles(const AttentionRun& run, int tile0, int tile1) {
  TileState s;
  std::memset(s.tile_max, 0, sizeof s.tile_max);  // rows that do not see a tile are computed along, never stored
  const int last = run.positions[run.rows - 1] / kBlockTokens;
  if (tile1 > last + 1) tile1 = last + 1;
  for (int tile = tile0; tile < tile1; ++tile) {
    const int from = first_row(run, tile);
    const bool partial = set_visible(run, tile, from, s);
    const std::uint8_t* block = run.layer + run.blocks[tile] * run.block_bytes;
    const std::uint8_t* next = run.layer + run.blocks[tile < last ? tile + 1 : last] * run.block_bytes;
    for (int head = 0; head < run.heads; ++head) attend_int8_tile<kHeadDim, kPrefetch>(run, head, block, next, from, partial, s);
  }
}

/// Few rows: memory bound, so the next block is prefetched.
template <int kHeadDim>
void attend_int8_dim(const AttentionRun& run, int tile0, int tile1) {
  if (run.rows <= 2 * kAttentionTile)
    attend_int8_tiles<kHeadDim, true>(run, tile0, tile1);
  else
    attend_int8_tiles<kHeadDim, false>(run, tile0, tile1);
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
