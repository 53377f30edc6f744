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

/// What a kernel does in one tile: rows from `from` on, of kv heads [head, head + heads).
struct TileWork {
  int head, heads, from;
  bool partial;                      // some row sees only a part of the tile
  std::size_t query, state;          // first row of `head` in the arrays of queries, and in those of the state
  const std::uint8_t *block, *next;  // slabs at `head`; the next one is prefetched
};

/// tile_max holds max(u) * qs. Sets keep and take, moves `max` on; rows before `from` keep their state untouched.
/// Without a fold the part is written as it is.
template <bool kFold>
TROUPE_INLINE void fold_maxima(float* state_max, int rows, int from, TileState& s) {
  for (int r = from & ~15; r < rows; r += 16) {
    const Floats tile = load(s.tile_max + r);
    if (!kFold) {
      store(state_max + r, tile, rows - r);
      store(s.take + r, set(1.0F));
      continue;
    }
    const Floats m = load(state_max + r, rows - r), high = max(m, tile);
    const Floats c = exp2p(sub(min(m, tile), high));
    const Mask grew = greater(tile, m);
    store(s.keep + r, select(grew, c, set(1.0F)));
    store(s.take + r, select(grew, set(1.0F), c));
    store(state_max + r, select(first(from - r), m, high), rows - r);
  }
}

/// old * keep + part * take; without a fold the part as it is.
template <bool kFold>
TROUPE_INLINE void fold(float* state, Floats part, float keep, float take) {
  store(state, kFold ? fma(part, set(take), mul(load(state), set(keep))) : part);
}

/// Exponentials of one row's scores, masked; folds their sums into the lanes.
template <bool kFold>
TROUPE_INLINE void exponentials(const float* scores, float scale, float tile_max, int visible, float keep, float take, float* lanes,
                                Floats& e0, Floats& e1) {
  const Floats factor = set(scale), minus_max = set(-tile_max);
  e0 = exp2p(fma(load(scores), factor, minus_max));
  e1 = exp2p(fma(load(scores + 16), factor, minus_max));
  if (visible < kBlockTokens) {
    e0 = select(first(visible), e0, zero());
    e1 = select(first(visible - 16), e1, zero());
  }
  fold<kFold>(lanes, add(e0, e1), keep, take);
}

template <bool kPrefetch, bool kFold, typename Op>
TROUPE_INLINE void walk_tiles(const AttentionRun& run, int tile0, int tile1, Op op) {
  TileState s;
  std::memset(s.tile_max, 0, sizeof s.tile_max);  // rows that do not see a tile are computed along, never stored
  const int last = run.positions[run.rows - 1] / kBlockTokens;
  if (tile1 > last + 1) tile1 = last + 1;
  const bool joined = run.row_stride == run.rows && run.positions[0] == run.positions[run.rows - 1];
  const int together = joined ? kMaxAttentionRows / run.rows : 1;  // heads
  for (int tile = tile0; tile < tile1; ++tile) {
    TileWork work;
    work.from = first_row(run, tile);
    work.partial = set_visible(run, tile, work.from, s);
    const std::uint8_t* block = run.layer + run.blocks[tile] * run.block_bytes;
    const std::uint8_t* next = run.layer + run.blocks[tile < last ? tile + 1 : last] * run.block_bytes;
    for (work.head = 0; work.head < run.heads; work.head += together) {
      work.heads = run.heads - work.head < together ? run.heads - work.head : together;
      work.query = static_cast<std::size_t>(work.head) * run.row_stride;
      work.state = kFold ? work.query : static_cast<std::size_t>((tile - tile0) * run.heads + work.head) * run.rows;
      work.block = block + work.head * run.head_bytes;
      work.next = next + work.head * run.head_bytes;
      op.template operator()<kPrefetch, kFold>(work, s);
    }
  }
}
/// Calls op<prefetch, fold>(work, state) tile by tile: blocks outside, heads inside, as they lie in memory. For up to kFewRows the
/// next block is prefetched: they are memory bound.
template <int kFewRows, typename Op>
TROUPE_INLINE void each_tile(const AttentionRun& run, int tile0, int tile1, Op op) {
  if (run.factor)
    walk_tiles<true, false>(run, tile0, tile1, op);
  else if (run.rows <= kFewRows)
    walk_tiles<true, true>(run, tile0, tile1, op);
  else
    walk_tiles<false, true>(run, tile0, tile1, op);
}

template <int kVectors>
TROUPE_INLINE void fold_vectors(const float* part, std::size_t stride, int tiles, const float* keep, const float* take, float* state) {
  Floats v[kVectors];
  TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) v[j] = load(state + 16 * j);
  for (int i = 0; i < tiles; ++i, part += stride)
    TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) v[j] = fma(load(part + 16 * j), set(take[i]), mul(v[j], set(keep[i])));
  TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) store(state + 16 * j, v[j]);
}

/// The fold of parts that attend_* wrote, for one row: what it would have done by itself, tile by tile.
void fold_row(const AttentionParts& parts, int row, float* state_max, float* lanes, float* out) {
  const auto rows = static_cast<std::size_t>(parts.rows), dim = static_cast<std::size_t>(parts.head_dim);
  for (int tile = 0; tile < parts.tiles; tile += 16) {
    const int count = parts.tiles - tile < 16 ? parts.tiles - tile : 16;
    const std::size_t at = static_cast<std::size_t>(tile) * rows + row;
    alignas(64) float before[16] = {}, own[16] = {}, factor[16] = {}, keep[16], take[16], weight[16];
    for (int i = 0; i < count; ++i) {
      before[i] = *state_max;
      own[i] = parts.max[at + i * rows];
      factor[i] = parts.factor[at + i * rows];
      *state_max = before[i] > own[i] ? before[i] : own[i];
    }
    const Floats m = load(before), t = load(own);
    const Floats c = exp2p(sub(min(m, t), max(m, t)));
    const Mask grew = greater(t, m);
    store(keep, select(grew, c, set(1.0F)));
    store(take, select(grew, set(1.0F), c));
    store(weight, mul(load(take), load(factor)));
    fold_vectors<1>(parts.lanes + at * 16, rows * 16, count, keep, take, lanes);
    std::size_t d = 0;
    for (; d + 64 <= dim; d += 64) fold_vectors<4>(parts.out + at * dim + d, rows * dim, count, keep, weight, out + d);
    for (; d < dim; d += 16) fold_vectors<1>(parts.out + at * dim + d, rows * dim, count, keep, weight, out + d);
  }
}

void finish(const float* lanes, const float* out, int head_dim, float* y) {
  const Floats sum = set(sum_of_lanes(load(lanes)));
  for (int d = 0; d < head_dim; d += 16) store(y + d, div(load(out + d), sum));
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
