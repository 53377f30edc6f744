// Products of int8 activations with 4- and 8-bit weights. Exact int32 dot products inside a group, then one fp32 step a group in
// ascending order, the same for every number of rows: a row never depends on the batch.
//
// Few rows (decode) read a panel as it is and unpack it in registers: the stream of weights is what takes time. Many rows take a chunk
// of a panel at a time that was made ready once (nibbles as bytes, scales as fp32) and stays in the L1 cache; then little but
// multiplications is left to do for each row.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kStepBytes = 4 * kPanelColumns;  // 4 inputs of all columns
constexpr int kNibbleBytes = 4 * kStepBytes, kByteBytes = 8 * kStepBytes;
constexpr int kRowBlock = 64;                              // quantized rows that share a sweep over the panels
constexpr int kChunkGroups = 8;                            // at most: 15 KiB when ready
constexpr int kPrefetchNear = 4096, kPrefetchFar = 20480;  // ahead in the stream of weights, for few rows
constexpr int kFewRows = kProductRows;                     // up to here a panel is read as it is

// Bytes of a group of a panel (pack.h).
constexpr int kW4GroupBytes = kNibbleBytes + kPanelColumns * 4;    // nibbles, 48 fp16 scales, 48 fp16 minima
constexpr int kW8GroupBytes = kByteBytes + kPanelColumns * 2;      // bytes, 48 fp16 scales
constexpr int kW8HalfGroupBytes = kByteBytes + kPanelColumns * 8;  // bytes, 2 x 48 fp32 scales
constexpr int group_bytes(PanelFormat format) {
  switch (format) {
    case PanelFormat::kW4Group32: return kW4GroupBytes;
    case PanelFormat::kW8Group32: return kW8GroupBytes;
    case PanelFormat::kW8Group16: return kW8HalfGroupBytes;
    default: return kByteBytes;  // the scales of a channel lie behind all groups
  }
}

TROUPE_INLINE void prefetch(const std::uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
/// In the stream of weights for few rows: from memory to the L2 cache, which has more requests under way, then on to L1.
TROUPE_INLINE void prefetch_stream(const std::uint8_t* p) {
  prefetch(p + kPrefetchNear);
  _mm_prefetch(reinterpret_cast<const char*>(p) + kPrefetchFar, _MM_HINT_T1);
}

/// Products of bytes (stored as w + 128) and of nibbles: what a sum of them is.
template <bool kNibbles>
struct Dots {
  using Sum = Ints;
  static TROUPE_MEMBER Sum start(const std::int32_t* bias) { return bias_at(bias); }
  static TROUPE_MEMBER Sum none() { return set_int(0); }
  static TROUPE_MEMBER Sum dot(Sum c, UnsignedBytes w, SignedQuad x) { return dot_weights(c, w, x); }
  static TROUPE_MEMBER Sum both(Sum a, Sum b) { return add(a, b); }
  static TROUPE_MEMBER Ints total(Sum c) { return c; }
};
template <>
struct Dots<true> {
  using Sum = NibbleSum;
  static TROUPE_MEMBER Sum start(const std::int32_t*) { return no_nibbles(); }
  static TROUPE_MEMBER Sum none() { return no_nibbles(); }
  static TROUPE_MEMBER Sum dot(Sum c, Nibbles w, SignedQuad x) { return dot_nibbles(c, w, x); }
  static TROUPE_MEMBER Sum both(Sum a, Sum b) { return join(a, b); }
  static TROUPE_MEMBER Ints total(Sum c) { return nibble_total(c); }
};

/// A chunk of a panel for many rows.
struct ReadyChunk {
  alignas(64) std::uint8_t bytes[kChunkGroups * kByteBytes];  // of W4: a nibble a byte, in the order of 8-bit weights
  alignas(64) float scales[kChunkGroups * kPanelColumns];
  alignas(64) float minima[kChunkGroups * kPanelColumns];
};

template <PanelFormat kFormat>
TROUPE_NOINLINE void make_ready(const std::uint8_t* w, int groups, ReadyChunk& ready) {
  constexpr bool kNibbles = kFormat == PanelFormat::kW4Group32;
  for (int g = 0; g < groups; ++g, w += group_bytes(kFormat)) {
    if constexpr (kNibbles) {
      std::uint8_t* bytes = ready.bytes + g * kByteBytes;
      for (int i = 0; i < kNibbleBytes; i += 64) {
        const Nibbles both = load_nibbles(w + i);
        store_nibbles(bytes + i, low_nibbles(both));
        store_nibbles(bytes + kNibbleBytes + i, high_nibbles(both));
      }
    }
    const auto* halves = reinterpret_cast<const std::uint16_t*>(w + (kNibbles ? kNibbleBytes : kByteBytes));
    for (int i = 0; i < kPanelColumns; i += 16) {
      store(ready.scales + g * kPanelColumns + i, load_half(halves + i));
      if constexpr (kNibbles) store(ready.minima + g * kPanelColumns + i, load_half(halves + kPanelColumns + i));
    }
  }
}

/// Groups [group, group + groups) of a panel times quantized rows from `row` on.
struct TileArgs {
  const QuantizedRows* rows;
  std::size_t row;
  int group, groups, row_groups;
  const std::uint8_t* weights;  // of the first group
  const ReadyChunk* ready;      // the same, ready; not used for few rows
  int column;                   // of the panel
  float* sums;                  // [rows][48]: carried from chunk to chunk; int32 where one scale serves all groups
};

/// Inputs 4 * step ... 4 * step + 3 of a group. In packed nibbles the upper half of a group lies in the high ones.
template <PanelFormat kFormat, bool kReady>
TROUPE_INLINE auto weights_of_step(const std::uint8_t* group, int step) {
  if constexpr (kFormat != PanelFormat::kW4Group32)
    return load_unsigned(group + step * kStepBytes);
  else if constexpr (kReady)
    return load_nibbles(group + step * kStepBytes);
  else
    return step < 4 ? low_nibbles(load_nibbles(group + step * kStepBytes)) : high_nibbles(load_nibbles(group + (step - 4) * kStepBytes));
}

/// kRows rows x 16 * kVectors columns from t.column.
template <PanelFormat kFormat, bool kReady, bool kPerGroup, int kRows, int kVectors>
TROUPE_NOINLINE void tile(const TileArgs& t) {
  constexpr bool kNibbles = kFormat == PanelFormat::kW4Group32, kHalves = kFormat == PanelFormat::kW8Group16;
  constexpr bool kChannel = kFormat == PanelFormat::kW8Channel;
  constexpr bool kScaledOnce = kChannel && !kPerGroup;
  constexpr int kParts = kHalves ? 2 : 1, kSteps = 8 / kParts;
  constexpr int kChains = kRows == 1 ? 2 : 1;  // one row alone would wait for each product
  constexpr int kGroupBytes = kReady && kNibbles ? kByteBytes : group_bytes(kFormat);
  using Dot = Dots<kNibbles>;
  const QuantizedRows& x = *t.rows;
  const auto row_groups = static_cast<std::size_t>(t.row_groups);
  const std::size_t first = t.row * row_groups + static_cast<std::size_t>(t.group);
  const std::int8_t* q = x.values + t.row * x.stride + t.group * kGroup;
  const float *x_scales = x.scales + first, *x_sums = x.scaled_sums + first;
  const std::int32_t *biases = x.biases + first, *half_sums = x.half_sums + 2 * first;
  const std::uint8_t* w = (kReady && kNibbles ? t.ready->bytes : t.weights) + t.column * 4;
  const float* ready_scales = kReady ? t.ready->scales + t.column : nullptr;
  float* const sums = t.sums + t.column;

  Floats f[kRows][kVectors];
  Ints whole[kRows][kVectors];
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
    float* from = sums + r * kPanelColumns + 16 * j;
    if constexpr (kScaledOnce)
      whole[r][j] = load_int32(from);
    else
      f[r][j] = t.group == 0 ? zero() : load(from);
  }
  for (int g = 0; g < t.groups; ++g) {
    TROUPE_UNROLL for (int part = 0; part < kParts; ++part) {
      typename Dot::Sum dot[kChains][kRows][kVectors];
      TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
        if constexpr (kScaledOnce)
          dot[0][r][j] = whole[r][j];
        else if constexpr (kHalves)
          dot[0][r][j] = bias(half_sums[2 * static_cast<std::size_t>(r) * row_groups + part]);
        else
          dot[0][r][j] = Dot::start(biases + static_cast<std::size_t>(r) * row_groups);
        if constexpr (kChains == 2) dot[1][r][j] = Dot::none();
      }
      TROUPE_UNROLL for (int step = part * kSteps; step < (part + 1) * kSteps; ++step) {
        if constexpr (!kReady) {
          constexpr int kLines = (kGroupBytes + 63) / 64 * 16 * kVectors / kPanelColumns;  // of this pass over the columns
          TROUPE_UNROLL for (int line = step * kLines / 8; line < (step + 1) * kLines / 8; ++line)
              prefetch_stream(w + line * 64 * (kPanelColumns / (16 * kVectors)));
        }
        TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
          const auto b = weights_of_step<kFormat, kReady>(w + j * 64, step);
          TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
            const SignedQuad a = signed_quad(four_bytes(q + static_cast<std::size_t>(r) * x.stride + 4 * step));
            auto& sum = dot[step % kChains][r][j];
            sum = Dot::dot(sum, b, a);
          }
        }
      }
      TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
        Floats scale = zero(), minimum = zero();
        if constexpr (kHalves) {
          scale = load(reinterpret_cast<const float*>(w - t.column * 4 + kByteBytes) + part * kPanelColumns + t.column + 16 * j);
        } else if constexpr (kReady && !kChannel) {
          scale = load(ready_scales + 16 * j);
          if constexpr (kNibbles) minimum = load(ready_scales + kChunkGroups * kPanelColumns + 16 * j);
        } else if constexpr (!kChannel) {
          const auto* at = reinterpret_cast<const std::uint16_t*>(w - t.column * 4 + (kNibbles ? kNibbleBytes : kByteBytes)) + t.column;
          scale = load_half(at + 16 * j);
          if constexpr (kNibbles) minimum = load_half(at + kPanelColumns + 16 * j);
        }
        TROUPE_UNROLL for (int r = 0; r < kRows; ++r) {
          const std::size_t i = static_cast<std::size_t>(r) * row_groups;
          auto sum = dot[0][r][j];
          if constexpr (kChains == 2) sum = Dot::both(sum, dot[1][r][j]);
          if constexpr (kScaledOnce) {
            whole[r][j] = sum;
          } else {
            const Floats factor = kChannel ? set(x_scales[i]) : kPerGroup ? mul(scale, set(x_scales[i])) : scale;
            if constexpr (kNibbles) f[r][j] = fma(set(x_sums[i]), minimum, f[r][j]);
            f[r][j] = fma(to_floats(Dot::total(sum)), factor, f[r][j]);
          }
        }
      }
    }
    w += kGroupBytes;
    q += kGroup;
    ready_scales += kPanelColumns;
    ++x_scales, ++x_sums, ++biases, half_sums += 2;
  }
  TROUPE_UNROLL for (int r = 0; r < kRows; ++r) TROUPE_UNROLL for (int j = 0; j < kVectors; ++j) {
    if constexpr (kScaledOnce)
      store_int32(sums + r * kPanelColumns + 16 * j, whole[r][j]);
    else
      store(sums + r * kPanelColumns + 16 * j, f[r][j]);
  }
}

template <PanelFormat kFormat, bool kReady, bool kPerGroup, int kRows>
TROUPE_INLINE void panel_tile(TileArgs t) {
  constexpr int kVectors = kRows == 1 ? 3 : kProductVectors;
  for (; t.column < kPanelColumns; t.column += 16 * kVectors) tile<kFormat, kReady, kPerGroup, kRows, kVectors>(t);
}

/// Rows that the next tile takes of `left`.
template <int kMost>
TROUPE_INLINE int tile_rows(std::size_t left) {
  if (kMost == 6 && left >= 6) return left == 7 || left == 8 ? 4 : 6;
  if (kMost >= 4 && left == 5) return 3;
  constexpr int kRows = kMost < 4 ? kMost : 4;
  return left < kRows ? static_cast<int>(left) : kRows;
}

/// The groups of `t`, ready, for sixteen rows on a tile unit: amx/tiles.inl.
template <PanelFormat kFormat, bool kPerGroup>
void sixteen_rows(const TileArgs& t);

/// The groups of `t` for rows [t.row, end). `ahead`: the weights that come next.
template <PanelFormat kFormat, bool kReady, bool kPerGroup>
TROUPE_INLINE void rows_in_tiles(TileArgs t, std::size_t end, const std::uint8_t* ahead) {
  // Without sums in fp32 there are registers for larger tiles.
  constexpr int kMost = kReady && kFormat == PanelFormat::kW8Channel && !kPerGroup ? kWholeProductRows : kProductRows;
  constexpr int kAheadLines = (kChunkGroups * group_bytes(kFormat) * kMost / kRowBlock + 63) / 64;
  if constexpr (TROUPE_TILE_UNIT && kReady && kFormat != PanelFormat::kW8Group16)  // its groups are shorter than a tile's inputs
    for (; end - t.row >= 16; t.row += 16, t.sums += 16 * kPanelColumns) sixteen_rows<kFormat, kPerGroup>(t);
  while (t.row < end) {
    const int rows = tile_rows<kMost>(end - t.row);
    if constexpr (kReady)
      for (int i = 0; i < kAheadLines; ++i, ahead += 64) prefetch(ahead);
    if constexpr (kMost >= 6)
      if (rows == 6) panel_tile<kFormat, kReady, kPerGroup, 6>(t);
    if constexpr (kMost >= 4)
      if (rows == 4) panel_tile<kFormat, kReady, kPerGroup, 4>(t);
    if constexpr (kMost >= 3)
      if (rows == 3) panel_tile<kFormat, kReady, kPerGroup, 3>(t);
    if constexpr (kMost >= 2)
      if (rows == 2) panel_tile<kFormat, kReady, kPerGroup, 2>(t);
    if (rows == 1) panel_tile<kFormat, kReady, kPerGroup, 1>(t);
    t.row += static_cast<std::size_t>(rows);
    t.sums += rows * kPanelColumns;
  }
}

/// What the int32 sums of rows [row, end) begin with: the bias of all groups.
void start_whole(const Int8Product& p, std::size_t row, std::size_t end, float* sums) {
  const auto groups = static_cast<std::size_t>(p.groups);
  for (; row < end; ++row, sums += kPanelColumns) {
    std::int32_t total = 0;
    for (std::size_t g = 0; g < groups; ++g) total += p.rows.biases[row * groups + g];
    for (int i = 0; i < kPanelColumns; i += 16) store_int32(sums + i, bias_at(&total));
  }
}

/// Sums of quantized rows to rows [row, end) of y: scales that all groups share, the second term, what y held before.
template <PanelFormat kFormat, bool kPerGroup>
TROUPE_INLINE void finish_rows(const Int8Product& p, std::size_t row, std::size_t end, std::size_t panel, const float* sums) {
  constexpr bool kChannel = kFormat == PanelFormat::kW8Channel;
  const std::size_t column = panel * kPanelColumns;
  const int columns = p.columns - column < kPanelColumns ? static_cast<int>(p.columns - column) : kPanelColumns;
  const auto* scales = reinterpret_cast<const float*>(p.panels + panel * p.panel_bytes + static_cast<std::size_t>(p.groups) * kByteBytes);
  const auto value = [&](std::size_t quantized, int i) {
    const float* at = sums + (quantized - row * p.terms) * kPanelColumns + i;
    if constexpr (kPerGroup) return kChannel ? mul(load(at), load(scales + i)) : load(at);
    const Floats a = set(p.rows.scales[quantized * static_cast<std::size_t>(p.groups)]);
    return kChannel ? mul(to_floats(load_int32(at)), mul(a, load(scales + i))) : mul(load(at), a);
  };
  for (std::size_t r = row; r < end; ++r) {
    float* y = p.y + r * p.y_stride + column;
    for (int i = 0; i < columns; i += 16) {
      const int lanes = columns - i < 16 ? columns - i : 16;
      Floats v = value(r * p.terms, i);
      if (p.terms == 2) v = add(v, value(r * 2 + 1, i));
      if (p.add) v = add(load(y + i, lanes), v);
      store(y + i, v, lanes);
    }
  }
}

template <PanelFormat kFormat, bool kPerGroup>
void multiply_format(const Int8Product& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  constexpr bool kScaledOnce = kFormat == PanelFormat::kW8Channel && !kPerGroup;
  alignas(64) float sums[kRowBlock * kPanelColumns];
  ReadyChunk ready;
  // Chunks of one size: a short one at the end would cost as much as a whole one.
  const int chunks = (p.groups + kChunkGroups - 1) / kChunkGroups, chunk = (p.groups + chunks - 1) / chunks;
  const std::size_t block = kRowBlock / p.terms;
  for (std::size_t row = row0; row < row1; row += block) {
    const std::size_t end = row1 - row < block ? row1 : row + block;
    const std::size_t first = row * p.terms, last = end * p.terms;  // quantized rows
    for (std::size_t panel = panel0; panel < panel1; ++panel) {
      TileArgs t{&p.rows, first, 0, p.groups, p.groups, p.panels + panel * p.panel_bytes, &ready, 0, sums};
      if constexpr (kScaledOnce) start_whole(p, first, last, sums);
      if (last - first <= kFewRows) {
        rows_in_tiles<kFormat, false, kPerGroup>(t, last, nullptr);
      } else {
        for (; t.group < p.groups; t.group += chunk) {
          t.groups = p.groups - t.group < chunk ? p.groups - t.group : chunk;
          const std::uint8_t* next = t.weights + t.groups * group_bytes(kFormat);
          if constexpr (kFormat == PanelFormat::kW4Group32 || kFormat == PanelFormat::kW8Group32)
            make_ready<kFormat>(t.weights, t.groups, ready);
          rows_in_tiles<kFormat, true, kPerGroup>(t, last, next);
          t.weights = next;
        }
      }
      finish_rows<kFormat, kPerGroup>(p, row, end, panel, sums);
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
    case PanelFormat::kW8Channel: multiply_scheme<PanelFormat::kW8Channel>(p, row0, row1, panel0, panel1); break;
    default: break;  // float panels have no int8 product
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
