// Attention over tiles of 32 absolute positions: what the int8 and the float caches share. Tiles are independent until the fold:
// scores are relative to the tile's own maximum, and an ordered fold of (maximum, 16 lanes of sums, output) joins them. So
// prefill, decode, chunks and splits over threads give the same bits (the online softmax of Milakov & Gimelshein 2018, per tile).
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

/// Scratch of one pass over a tile: all rows of one kv head, or the rows of one position of several.
struct TileState {
  alignas(64) float scores[kMaxAttentionRows * kBlockTokens];
  alignas(64) float tile_max[kMaxAttentionRows];  // of the scores, then scaled
  alignas(64) float keep[kMaxAttentionRows];      // factor of the state so far
  alignas(64) float take[kMaxAttentionRows];      // factor of this tile
  alignas(64) float value_factor[kMaxAttentionRows];
  std::int32_t visible[kMaxAttentionRows];  // positions of the tile that a row may see
};

/// First row that sees the tile; `rows` if none does.
TROUPE_INLINE int first_row(const AttentionRun& run, int tile) {
  int r = 0;
  while (r < run.rows && run.positions[r] < kBlockTokens * tile) ++r;
  return r;
}
/// Says whether some row sees only part of the tile; only then is `visible` filled.
TROUPE_INLINE bool set_visible(const AttentionRun& run, int tile, int from, TileState& s) {
  if (run.positions[from] - kBlockTokens * tile + 1 >= kBlockTokens) return false;
  for (int r = from; r < run.rows; ++r) s.visible[r] = run.positions[r] - kBlockTokens * tile + 1;
  return true;
}

/// Calls op<rows>(first) for rows [from, to): whole groups of kTile, then smaller ones.
template <int kTile, typename Op>
TROUPE_INLINE void in_groups(int from, int to, Op op) {
  int r = from;
  for (; r + kTile <= to; r += kTile) op.template operator()<kTile>(r);
  if constexpr (kTile > 4) {
    if (to - r >= 4) {
      op.template operator()<4>(r);
      r += 4;
    }
  }
  if constexpr (kTile > 1) {
    if (to - r == 3) op.template operator()<3>(r);
    if (to - r == 2) op.template operator()<2>(r);
    if (to - r == 1) op.template operator()<1>(r);
  }
}

template <int kRows>
TROUPE_INLINE void store_maxima(const Floats (&best)[kRows], float* to) {
  TROUPE_UNROLL for (int r = 0; r + 4 <= kRows; r += 4) maxima_of_four(best[r], best[r + 1], best[r + 2], best[r + 3], to + r);
  if constexpr (kRows % 4 == 3) {
    float four[4];
    maxima_of_four(best[kRows - 3], best[kRows - 2], best[kRows - 1], best[kRows - 1], four);
    std::memcpy(to + kRows - 3, four, 3 * sizeof(float));
  } else {
    TROUPE_UNROLL for (int r = kRows / 4 * 4; r < kRows; ++r) to[r] = low(max_of_lanes(best[r]));
  }
}

/// tile_max holds max(u) * qs. Sets keep and take, moves `max` on; rows before `from` keep their state untouched.
TROUPE_INLINE void fold_maxima(float* state_max, int rows, int from, TileState& s) {
  for (int r = from & ~15; r < rows; r += 16) {
    const Floats m = load(state_max + r, rows - r), tile = load(s.tile_max + r);
    const Floats high = max(m, tile);
    const Floats c = exp2p(sub(min(m, tile), high));
    const Mask grew = greater(tile, m);
    store(s.keep + r, select(grew, c, set(1.0F)));
    store(s.take + r, select(grew, set(1.0F), c));
    store(state_max + r, select(first(from - r), m, high), rows - r);
  }
}

/// Exponentials of one row's scores, masked; folds their sums into the lanes.
TROUPE_INLINE void exponentials(const float* scores, float scale, float tile_max, int visible, float keep, float take, float* lanes,
                                Floats& e0, Floats& e1) {
  const Floats factor = set(scale), minus_max = set(-tile_max);
  e0 = exp2p(fma(load(scores), factor, minus_max));
  e1 = exp2p(fma(load(scores + 16), factor, minus_max));
  if (visible < kBlockTokens) {
    e0 = select(first(visible), e0, zero());
    e1 = select(first(visible - 16), e1, zero());
  }
  store(lanes, fma(add(e0, e1), set(take), mul(load(lanes), set(keep))));
}

template <bool kPrefetch, typename Op>
TROUPE_INLINE void walk_tiles(const AttentionRun& run, int tile0, int tile1, Op op) {
  TileState s;
  std::memset(s.tile_max, 0, sizeof s.tile_max);  // rows that do not see a tile are computed along, never stored
  const int last = run.positions[run.rows - 1] / kBlockTokens;
  if (tile1 > last + 1) tile1 = last + 1;
  const bool joined = run.row_stride == run.rows && run.positions[0] == run.positions[run.rows - 1];
  const int together = joined ? kMaxAttentionRows / run.rows : 1;  // heads
  for (int tile = tile0; tile < tile1; ++tile) {
    const int from = first_row(run, tile);
    const bool partial = set_visible(run, tile, from, s);
    const std::uint8_t* block = run.layer + run.blocks[tile] * run.block_bytes;
    const std::uint8_t* next = run.layer + run.blocks[tile < last ? tile + 1 : last] * run.block_bytes;
    for (int head = 0; head < run.heads; head += together)
      op.template operator()<kPrefetch>(head, run.heads - head < together ? run.heads - head : together, block, next, from, partial, s);
  }
}
/// Calls op<prefetch>(head, heads, block, next block, first row, some row sees a part only, state) tile by tile: blocks outside, heads
/// inside, as they lie in memory. Few rows are memory bound, so the next block is prefetched.
template <typename Op>
TROUPE_INLINE void each_tile(const AttentionRun& run, int tile0, int tile1, Op op) {
  if (run.rows <= 8)
    walk_tiles<true>(run, tile0, tile1, op);
  else
    walk_tiles<false>(run, tile0, tile1, op);
}

void finish(const float* lanes, const float* out, int head_dim, float* y) {
  const Floats sum = set(sum_of_lanes(load(lanes)));
  for (int d = 0; d < head_dim; d += 16) store(y + d, div(load(out + d), sum));
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
