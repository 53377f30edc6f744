// Weights of any panel as fp32, rounded once: q * scale + minimum. Two users: products of few rows widen in registers, products of
// many rows widen a chunk of inputs into scratch first.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kCell = 16;                      // inputs that share a scale in every format
constexpr int kQuadBytes = 4 * kPanelColumns;  // 4 inputs of all outputs

/// 16 inputs x 16 outputs of a panel. open() finds them and their scales, take(q) reads inputs 4q ... 4q + 3, weight<i>() is input 4q + i
/// of them.
template <PanelFormat kFormat>
struct Cell {
  static constexpr bool kNibbles = kFormat == PanelFormat::kW4Group32, kChannel = kFormat == PanelFormat::kW8Channel;
  static constexpr int kWeightBytes =
      (kNibbles ? 4 : 8) * kQuadBytes;  // of a group of 32 inputs; its scales follow, or all of the panel's its last group
  static constexpr int kScaleBytes = kChannel ? 0 : kFormat == PanelFormat::kW8Group32 ? 2 : kNibbles ? 4 : 8;
  static constexpr int kGroupBytes = kWeightBytes + kPanelColumns * kScaleBytes;
  static constexpr int kInputBytes = kGroupBytes / kGroup;  // of all outputs, about
  const std::uint8_t* from;
  Floats scale, minimum;
  Ints shift, quad;

  TROUPE_MEMBER void open(const FloatPanel& panel, int k, int column) {
    from = panel.bytes + static_cast<std::size_t>(k / kGroup) * kGroupBytes;
    const std::uint8_t* scales = from + kWeightBytes;
    const int half = k / kCell % 2;
    if constexpr (kChannel)
      scale = load(reinterpret_cast<const float*>(panel.bytes + static_cast<std::size_t>(panel.inner) * kPanelColumns) + column);
    else if constexpr (kFormat == PanelFormat::kW8Group16)
      scale = load(reinterpret_cast<const float*>(scales) + half * kPanelColumns + column);
    else
      scale = load_half(reinterpret_cast<const std::uint16_t*>(scales) + column);
    if constexpr (kNibbles) {
      minimum = load_half(reinterpret_cast<const std::uint16_t*>(scales) + kPanelColumns + column);
      shift = set_int(4 * half);
    } else {
      minimum = mul(scale, set(-128.0F));  // exact: bytes are q + 128
      from += half * kWeightBytes / 2;
    }
    from += 4 * column;
  }
  TROUPE_MEMBER void take(int q) {
    quad = load_int32(from + q * kQuadBytes);
    if constexpr (kNibbles) quad = low_fours(shift_right(quad, shift));
  }
  template <int kIndex>
  TROUPE_MEMBER Floats weight() const {
    return fma(byte_as_float<kIndex>(quad), scale, minimum);
  }
};
template <>
struct Cell<PanelFormat::kF32> {
  static constexpr int kInputBytes = 4 * kPanelColumns;
  const float* from;
  const float* rows;
  TROUPE_MEMBER void open(const FloatPanel& panel, int k, int column) {
    from = reinterpret_cast<const float*>(panel.bytes) + static_cast<std::size_t>(k) * kPanelColumns + column;
  }
  TROUPE_MEMBER void take(int q) { rows = from + 4 * q * kPanelColumns; }
  template <int kIndex>
  TROUPE_MEMBER Floats weight() const {
    return load(rows + kIndex * kPanelColumns);
  }
};
template <>
struct Cell<PanelFormat::kF16> {
  static constexpr int kInputBytes = 2 * kPanelColumns;
  const std::uint16_t* from;
  const std::uint16_t* rows;
  TROUPE_MEMBER void open(const FloatPanel& panel, int k, int column) {
    from = reinterpret_cast<const std::uint16_t*>(panel.bytes) + static_cast<std::size_t>(k) * kPanelColumns + column;
  }
  TROUPE_MEMBER void take(int q) { rows = from + 4 * q * kPanelColumns; }
  template <int kIndex>
  TROUPE_MEMBER Floats weight() const {
    return load_half(rows + kIndex * kPanelColumns);
  }
};
template <>
struct Cell<PanelFormat::kBF16> {
  static constexpr int kInputBytes = 2 * kPanelColumns;
  const std::uint8_t* from;
  Ints pairs[2];
  TROUPE_MEMBER void open(const FloatPanel& panel, int k, int column) {
    from = panel.bytes + (static_cast<std::size_t>(k / 2) * kPanelColumns + column) * 4;
  }
  TROUPE_MEMBER void take(int q) {
    pairs[0] = load_int32(from + 2 * q * kPanelColumns * 4);
    pairs[1] = load_int32(from + (2 * q + 1) * kPanelColumns * 4);
  }
  template <int kIndex>
  TROUPE_MEMBER Floats weight() const {
    return kIndex % 2 ? upper_bfloat(pairs[kIndex / 2]) : lower_bfloat(pairs[kIndex / 2]);
  }
};

/// Input k of 16 outputs of a panel of floats: for inputs behind the last whole cell.
template <PanelFormat kFormat>
TROUPE_INLINE Floats lone_weight(const FloatPanel& panel, int k, int column) {
  const std::size_t i = static_cast<std::size_t>(k) * kPanelColumns + column;
  if constexpr (kFormat == PanelFormat::kF32) return load(reinterpret_cast<const float*>(panel.bytes) + i);
  if constexpr (kFormat == PanelFormat::kF16) return load_half(reinterpret_cast<const std::uint16_t*>(panel.bytes) + i);
  if constexpr (kFormat == PanelFormat::kBF16) {
    const Ints pairs = load_int32(panel.bytes + (static_cast<std::size_t>(k / 2) * kPanelColumns + column) * 4);
    return k % 2 ? upper_bfloat(pairs) : lower_bfloat(pairs);
  }
  return zero();  // quantized panels have whole cells only
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
