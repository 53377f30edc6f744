// Attention over fp16 and fp32 blocks. A kv head's slab: K [head_dim][32], V [32][head_dim], values converted exactly. Scores: fma
// over d ascending, lanes are positions. Values: fma over positions ascending, masked positions skipped.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

TROUPE_INLINE Floats load_cached(const float* p) { return load(p); }
TROUPE_INLINE Floats load_cached(const std::uint16_t* p) { return load_half(p); }

void store_f32(std::uint8_t* head, int head_dim, int slot, const float* k, const float* v) {
  auto* keys = reinterpret_cast<float*>(head);
  for (int d = 0; d < head_dim; ++d) keys[d * kBlockTokens + slot] = k[d];
  std::memcpy(keys + (kBlockTokens + slot) * head_dim, v, static_cast<std::size_t>(head_dim) * sizeof(float));
}
void store_f16(std::uint8_t* head, int head_dim, int slot, const float* k, const float* v) {
  auto* keys = reinterpret_cast<std::uint16_t*>(head);
  std::uint16_t* values = keys + (kBlockTokens + slot) * head_dim;
  for (int d = 0; d < head_dim; d += 16) {
    alignas(64) std::uint16_t column[16];
    store_half(column, load(k + d));
    for (int i = 0; i < 16; ++i) keys[(d + i) * kBlockTokens + slot] = column[i];
    store_half(values + d, load(v + d));
  }
}

/// Raw scores of kRows rows and each row's maximum. `visible` null: the whole tile. `next` is prefetched into L2.
template <typename T, int kRows, bool kPrefetch>
TROUPE_NOINLINE void float_scores(const T* k, int head_dim, const float* q, const std::int32_t* visible, float* scores, float* tile_max,
                                  const T* next) {
  constexpr int kVectors = kFloatTileVectors;
  Floats best[kRows];
  TROUPE_UNROLL for (int half = 0; half < 2; half += kVectors) {
    Floats sum[kRows][kVectors];
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[r][j] = zero();
    for (int d = 0; d < head_dim; ++d) {
      Floats key[kVectors];
      TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
        const int at = d * kBlockTokens + 16 * (half + j);
        key[j] = load_cached(k + at);
        if (kPrefetch && at * sizeof(T) % 64 == 0) _mm_prefetch(reinterpret_cast<const char*>(next + at), _MM_HINT_T1);
      }
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
        const Floats a = set(q[r * head_dim + d]);
        TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[r][j] = fma(a, key[j], sum[r][j]);
      }
    }
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
      const int at = 16 * (half + j);
      Floats u = sum[r][j];
      if (visible) u = select(first(visible[r] - at), u, set(kNever));
      best[r] = at ? max(best[r], u) : u;
      store(scores + kBlockTokens * r + at, u);
    }
  }
  store_maxima<kRows>(best, tile_max);
}

/// Elements [d, d + 16 * kVectors) of kRows outputs. kPartial: row r sees only `visible[r]` positions.
template <typename T, int kRows, int kVectors, bool kPartial, bool kPrefetch, bool kFold>
TROUPE_INLINE void float_value_vectors(const T* v, int head_dim, int d, const float* e, const std::int32_t* visible, const float* keep,
                                       const float* take, float* out, const T* next) {
  Floats sum[kRows][kVectors];
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[r][j] = zero();
  const int longest = kPartial && visible[kRows - 1] < kBlockTokens ? visible[kRows - 1] : kBlockTokens;
  for (int i = 0; i < longest; ++i) {
    Floats value[kVectors];
    TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
      const int at = i * head_dim + d + 16 * j;
      value[j] = load_cached(v + at);
      if (kPrefetch && at * sizeof(T) % 64 == 0) _mm_prefetch(reinterpret_cast<const char*>(next + at), _MM_HINT_T1);
    }
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
      if (kPartial && i >= visible[r]) continue;
      const Floats a = set(e[kBlockTokens * r + i]);
      TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) sum[r][j] = fma(a, value[j], sum[r][j]);
    }
  }
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
    fold<kFold>(out + r * head_dim + d + 16 * j, sum[r][j], keep[r], take[r]);
  }
}

template <typename T, int kRows, bool kPartial, bool kPrefetch, bool kFold>
TROUPE_NOINLINE void float_values(const T* v, int head_dim, const float* e, const std::int32_t* visible, const float* keep,
                                  const float* take, float* out, const T* next) {
  constexpr int kVectors = kRows < 4 ? 2 * kFloatTileVectors : kFloatTileVectors;
  int d = 0;
  for (; d + 16 * kVectors <= head_dim; d += 16 * kVectors)
    float_value_vectors<T, kRows, kVectors, kPartial, kPrefetch, kFold>(v, head_dim, d, e, visible, keep, take, out, next);
  for (; d < head_dim; d += 16)
    float_value_vectors<T, kRows, 1, kPartial, kPrefetch, kFold>(v, head_dim, d, e, visible, keep, take, out, next);
}

/// Phase by phase over all heads, so that the chains of one overlap with those of the next.
template <typename T, bool kPrefetch, bool kFold>
TROUPE_INLINE void attend_float_tile(const AttentionRun& run, const TileWork& work, TileState& s) {
  const int head_dim = run.head_dim, rows = run.rows, all = work.heads * rows;
  const auto keys = [&](const std::uint8_t* slab, int h) { return reinterpret_cast<const T*>(slab + h * run.head_bytes); };
  for (int h = 0; h < work.heads; ++h)
    in_groups<kFloatTile>(
        work.from, rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
          const int i = h * rows + r;
          float_scores<T, kRows, kPrefetch>(keys(work.block, h), head_dim, run.q_float + (work.query + i) * head_dim,
                                            work.partial ? s.visible + r : nullptr, s.scores + i * kBlockTokens, s.tile_max + i,
                                            keys(work.next, h));
        });
  const Floats scale = set(run.score_scale);
  for (int r = work.from & ~15; r < all; r += 16) store(s.tile_max + r, mul(load(s.tile_max + r), scale));
  fold_maxima<kFold>(run.max + work.state, all, work.from, s);
  for (int h = 0; h < work.heads; ++h)
    for (int r = work.from; r < rows; ++r) {
      const int i = h * rows + r;
      Floats e0, e1;
      float* row = s.scores + i * kBlockTokens;
      exponentials<kFold>(row, run.score_scale, s.tile_max[i], work.partial ? s.visible[r] : kBlockTokens, s.keep[i], s.take[i],
                          run.lanes + (work.state + i) * 16, e0, e1);
      store(row, e0);
      store(row + 16, e1);
      if (!kFold) run.factor[work.state + i] = 1.0F;
    }
  for (int h = 0; h < work.heads; ++h) {
    const T *v = keys(work.block, h) + kBlockTokens * head_dim, *next = keys(work.next, h) + kBlockTokens * head_dim;
    in_groups<kFloatTile>(
        work.from, rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
          const int i = h * rows + r;
          const auto values =
              work.partial ? float_values<T, kRows, true, kPrefetch, kFold> : float_values<T, kRows, false, kPrefetch, kFold>;
          values(v, head_dim, s.scores + i * kBlockTokens, s.visible + r, s.keep + i, s.take + i, run.out + (work.state + i) * head_dim,
                 next);
        });
  }
}

template <typename T>
void attend_float(const AttentionRun& run, int tile0, int tile1) {
  each_tile<kMaxAttentionRows>(
      run, tile0, tile1, [&]<bool kPrefetch, bool kFold>(const TileWork& work, TileState& s) __attribute__((always_inline)) {
        attend_float_tile<T, kPrefetch, kFold>(run, work, s);
      });
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
