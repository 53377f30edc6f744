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

template <typename T, int kRows>
TROUPE_NOINLINE void float_scores(const T* k, int head_dim, const float* q, const std::int32_t* visible, float* scores, float* tile_max) {
  Floats sum[kRows][2];
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = zero();
  for (int d = 0; d < head_dim; ++d) {
    const Floats k0 = load_cached(k + d * kBlockTokens), k1 = load_cached(k + d * kBlockTokens + 16);
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
      const Floats a = set(q[r * head_dim + d]);
      sum[r][0] = fma(a, k0, sum[r][0]);
      sum[r][1] = fma(a, k1, sum[r][1]);
    }
  }
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
    const Floats u0 = select(first(visible[r]), sum[r][0], set(kNever)), u1 = select(first(visible[r] - 16), sum[r][1], set(kNever));
    store(scores + kBlockTokens * r, u0);
    store(scores + kBlockTokens * r + 16, u1);
    tile_max[r] = low(max_of_lanes(max(u0, u1)));
  }
}

template <typename T, int kRows>
TROUPE_NOINLINE void float_values(const T* v, int head_dim, const float* e, const std::int32_t* visible, const float* keep,
                                  const float* take, float* out) {
  const int longest = visible[kRows - 1] < kBlockTokens ? visible[kRows - 1] : kBlockTokens;
  for (int d = 0; d < head_dim; d += 16) {
    Floats sum[kRows];
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) sum[r] = zero();
    for (int i = 0; i < longest; ++i) {
      const Floats value = load_cached(v + i * head_dim + d);
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) if (i < visible[r]) sum[r] = fma(set(e[kBlockTokens * r + i]), value, sum[r]);
    }
    TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
      float* at = out + r * head_dim + d;
      store(at, fma(sum[r], set(take[r]), mul(load(at), set(keep[r]))));
    }
  }
}

template <typename T>
TROUPE_INLINE void attend_float_tile(const AttentionRun& run, int head, const std::uint8_t* block, int from, TileState& s) {
  const int head_dim = run.head_dim;
  const std::size_t base = static_cast<std::size_t>(head) * run.row_stride;
  const float* q = run.q_float + base * head_dim;
  float* lanes = run.lanes + base * 16;
  float* out = run.out + base * head_dim;
  const auto* k = reinterpret_cast<const T*>(block + head * run.head_bytes);
  const T* v = k + kBlockTokens * head_dim;
  in_groups(
      from, run.rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
        float_scores<T, kRows>(k, head_dim, q + r * head_dim, s.visible + r, s.scores + r * kBlockTokens, s.tile_max + r);
      });
  const Floats scale = set(run.score_scale);
  for (int r = from & ~15; r < run.rows; r += 16) store(s.tile_max + r, mul(load(s.tile_max + r), scale));
  fold_maxima(run.max + base, run.rows, from, s);
  for (int r = from; r < run.rows; ++r) {
    Floats e0, e1;
    float* row = s.scores + r * kBlockTokens;
    exponentials(row, run.score_scale, s.tile_max[r], s.visible[r], s.keep[r], s.take[r], lanes + r * 16, e0, e1);
    store(row, e0);
    store(row + 16, e1);
  }
  in_groups(
      from, run.rows, [&]<int kRows>(int r) __attribute__((always_inline)) {
        float_values<T, kRows>(v, head_dim, s.scores + r * kBlockTokens, s.visible + r, s.keep + r, s.take + r, out + r * head_dim);
      });
}

template <typename T>
void attend_float(const AttentionRun& run, int tile0, int tile1) {
  TileState s;
  std::memset(s.tile_max, 0, sizeof s.tile_max);
  const int last = run.positions[run.rows - 1] / kBlockTokens;
  if (tile1 > last + 1) tile1 = last + 1;
  for (int tile = tile0; tile < tile1; ++tile) {
    const int from = first_row(run, tile);
    set_visible(run, tile, from, s);
    const std::uint8_t* block = run.layer + run.blocks[tile] * run.block_bytes;
    for (int head = 0; head < run.heads; ++head) attend_float_tile<T>(run, head, block, from, s);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
