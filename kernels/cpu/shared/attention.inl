// Attention over tiles of 32 absolute positions: what the int8 and the float caches share. Tiles are independent until the fold:
// scores are relative to the tile's own maximum, and an ordered fold of (maximum, 16 lanes of sums, output) joins them. So
// prefill, decode, chunks and splits over threads give the same bits (the online softmax of Milakov & Gimelshein 2018, per tile).
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

/// Scratch of one pass over a tile, for all rows of one kv head.
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
/// Fills `visible` and says whether some row sees only part of the tile.
TROUPE_INLINE bool set_visible(const AttentionRun& run, int tile, int from, TileState& s) {
  for (int r = from; r < run.rows; ++r) s.visible[r] = run.positions[r] - kBlockTokens * tile + 1;
  return s.visible[from] < kBlockTokens;
}

/// tile_max holds max(u) * qs. Sets keep and take, moves `max` on; rows before `from` keep their state untouched.
TROUPE_INLINE void fold_maxima(float* state_max, int rows, int from, TileState& s) {
  for (int r = from & ~15; r < rows; r += 16) {
    const Floats m = load(state_max + r), tile = load(s.tile_max + r);
    const Floats high = max(m, tile);
    const Floats c = exp2p(sub(min(m, tile), high));
    const Mask grew = greater(tile, m);
    store(s.keep + r, select(grew, c, set(1.0F)));
    store(s.take + r, select(grew, set(1.0F), c));
    store(state_max + r, select(first(from - r), m, high));
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

void finish(const float* lanes, const float* out, int head_dim, float* y) {
  const Floats sum = set(sum_of_lanes(load(lanes)));
  for (int d = 0; d < head_dim; d += 16) store(y + d, div(load(out + d), sum));
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
