// Sixteen quantized rows x a panel on a tile unit: the fast path of matmul_int8.inl for many rows, with its arithmetic. A tile sums one
// group of 32 inputs, because a group's scales come next; where one scale serves all groups it sums the whole chunk.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

template <PanelFormat kFormat, bool kPerGroup>
TROUPE_NOINLINE void sixteen_rows(const TileArgs& t) {
  constexpr bool kNibbles = kFormat == PanelFormat::kW4Group32, kChannel = kFormat == PanelFormat::kW8Channel;
  constexpr int kGroupBytes = kNibbles ? kByteBytes : group_bytes(kFormat);
  const QuantizedRows& x = *t.rows;
  const std::int8_t* q = x.values + t.row * x.stride + t.group * kGroup;
  const std::uint8_t* w = kNibbles ? t.ready->bytes : t.weights;
  if constexpr (kChannel && !kPerGroup) {
    TileUnit::load_sums(t.sums);
    int g = 0;
    for (; g + 2 <= t.groups; g += 2) TileUnit::add_sixty_four(q + g * kGroup, x.stride, w + g * kByteBytes);
    if (g < t.groups) TileUnit::add_thirty_two(q + g * kGroup, x.stride, w + g * kByteBytes);
    TileUnit::store_sums(t.sums);
    return;
  }
  alignas(64) std::int32_t dots[kChunkGroups][16 * kPanelColumns];
  for (int g = 0; g < t.groups; ++g) {
    TileUnit::zero_sums();
    TileUnit::add_thirty_two(q + g * kGroup, x.stride, w + g * kGroupBytes);
    TileUnit::store_sums(dots[g]);
  }
  for (int r = 0; r < 16; ++r) {
    const std::size_t first =
        (t.row + static_cast<std::size_t>(r)) * static_cast<std::size_t>(t.row_groups) + static_cast<std::size_t>(t.group);
    float* const sums = t.sums + r * kPanelColumns;
    Floats f[3];
    TROUPE_UNROLL for (int j = 0; j < 3; ++j) f[j] = t.group == 0 ? zero() : load(sums + 16 * j);
    for (int g = 0; g < t.groups; ++g) {
      const Floats a = set(x.scales[first + g]);
      TROUPE_UNROLL for (int j = 0; j < 3; ++j) {
        const int column = g * kPanelColumns + 16 * j;
        Ints dot = load_int32(dots[g] + r * kPanelColumns + 16 * j);
        if constexpr (!kNibbles) dot = add(dot, set_int(x.biases[first + g]));
        Floats factor = a;
        if constexpr (!kChannel) factor = kPerGroup ? mul(load(t.ready->scales + column), a) : load(t.ready->scales + column);
        if constexpr (kNibbles) f[j] = fma(set(x.scaled_sums[first + g]), load(t.ready->minima + column), f[j]);
        f[j] = fma(to_floats(dot), factor, f[j]);
      }
    }
    TROUPE_UNROLL for (int j = 0; j < 3; ++j) store(sums + 16 * j, f[j]);
  }
}

void multiply_on_tiles(const Int8Product& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  if ((row1 - row0) * p.terms < 16) return multiply_int8(p, row0, row1, panel0, panel1);
  [[maybe_unused]] const TileShapes shapes;
  multiply_int8(p, row0, row1, panel0, panel1);
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
