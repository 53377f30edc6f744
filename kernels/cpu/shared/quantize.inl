// Symmetric quantization to int8: activations by groups of 32 or by token, and single heads. Maxima and integer sums are exact, so
// rows are worked on four groups at a time; only the two divisions and one product an element round.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

/// Largest magnitude of n floats, n a multiple of 16.
TROUPE_INLINE float largest_magnitude(const float* x, int n) {
  Floats m = zero();
  for (int i = 0; i < n; i += 16) m = max(m, abs(load(x + i)));
  return low(max_of_lanes(m));
}
/// 127 / amax; 0 for a row that is zero or so small that the quotient would be infinite.
TROUPE_INLINE float inverse_scale(float amax) {
  const float inverse = 127.0F / amax;
  return amax > 0x1p-100F ? inverse : 0.0F;
}
/// nearest(x * factor) in [-127, 127]. What is not a number becomes -127, so that a broken model computes nonsense, but never an
/// overflow.
TROUPE_INLINE Ints quantized(const float* x, Floats factor) { return to_ints(min(max(mul(load(x), factor), set(-127.0F)), set(127.0F))); }
/// Stores n quantized values, n a multiple of 16; returns their sum.
TROUPE_INLINE std::int32_t quantize(const float* x, int n, float inverse, std::int8_t* q) {
  const Floats factor = set(inverse);
  Ints sum = set_int(0);
  for (int i = 0; i < n; i += 16) {
    const Ints v = quantized(x + i, factor);
    store_signed_bytes(q + i, v);
    sum = add(sum, v);
  }
  return sum_of_ints(sum);
}

using Four = float __attribute__((vector_size(16)));

/// Scales of kCount groups (4 or 1) and their inverses; `whole`: the largest magnitude of the row, for one scale a token.
template <int kCount>
TROUPE_INLINE void group_scales(const float* x, bool per_group, float whole, float* scales, float* inverses) {
  Four amax = {whole, whole, whole, whole};
  if (per_group) {
    Floats size[4] = {zero(), zero(), zero(), zero()};
    float four[4];
    TROUPE_UNROLL for (int j = 0; j < kCount; ++j) size[j] = max(abs(load(x + j * kGroup)), abs(load(x + j * kGroup + 16)));
    maxima_of_four(size[0], size[1], size[2], size[3], four);
    std::memcpy(&amax, four, sizeof amax);
  }
  const Four scale = amax / 127.0F, quotient = 127.0F / amax, inverse = amax > 0x1p-100F ? quotient : Four{};
  std::memcpy(scales, &scale, kCount * sizeof(float));
  std::memcpy(inverses, &inverse, kCount * sizeof(float));
}

/// Values and sums of kCount groups (2 or 1), the first of them group `at` of all rows.
template <int kCount>
TROUPE_INLINE void quantize_groups(const float* x, const float* inverses, std::int8_t* q, const QuantizedRows& to, std::size_t at) {
  Ints v[4] = {set_int(0), set_int(0), set_int(0), set_int(0)};
  std::int32_t halves[4];
  TROUPE_UNROLL for (int i = 0; i < 2 * kCount; ++i) v[i] = quantized(x + 16 * i, set(inverses[i / 2]));
  if (kCount == 1) {
    store_signed_bytes(q, v[0]);
    store_signed_bytes(q + 16, v[1]);
  } else {
    store_signed_bytes(q, v[0], v[1], v[2], v[3]);
  }
  sums_of_four(v[0], v[1], v[2], v[3], halves);
  std::memcpy(to.half_sums + 2 * at, halves, 2 * kCount * sizeof(std::int32_t));
  TROUPE_UNROLL for (int j = 0; j < kCount; ++j) {
    const std::int32_t both = halves[2 * j] + halves[2 * j + 1];
    const auto sum = static_cast<float>(both);
    to.biases[at + j] = -128 * both;
    to.scaled_sums[at + j] = to.per_group ? sum * to.scales[at + j] : sum;
  }
}

/// In two passes, a run of groups at a time: else the second half of each group would wait for its maximum and its divisions.
void quantize_row(const float* x, int cols, const QuantizedRows& to, std::size_t row) {
  constexpr int kRun = 32;  // groups
  const int groups = cols / kGroup;
  const float whole = to.per_group ? 0.0F : largest_magnitude(x, cols);
  const std::size_t base = row * static_cast<std::size_t>(groups);
  std::int8_t* q = to.values + row * to.stride;
  float inverses[kRun];
  for (int first = 0; first < groups; first += kRun) {
    const int end = groups - first < kRun ? groups : first + kRun;
    float* scales = to.scales + base;
    int g = first;
    for (; g + 4 <= end; g += 4) group_scales<4>(x + g * kGroup, to.per_group, whole, scales + g, inverses + g - first);
    for (; g < end; ++g) group_scales<1>(x + g * kGroup, to.per_group, whole, scales + g, inverses + g - first);
    g = first;
    for (; g + 2 <= end; g += 2) quantize_groups<2>(x + g * kGroup, inverses + g - first, q + g * kGroup, to, base + g);
    for (; g < end; ++g) quantize_groups<1>(x + g * kGroup, inverses + g - first, q + g * kGroup, to, base + g);
  }
}

/// x - Q(x), rounded once.
void quantization_error(const float* x, int cols, const QuantizedRows& quantized, std::size_t row, float* y) {
  const std::int8_t* q = quantized.values + row * quantized.stride;
  const float* scales = quantized.scales + row * static_cast<std::size_t>(cols / kGroup);
  for (int i = 0; i < cols; i += 16) store(y + i, fma(to_floats(load_ints(q + i)), set(-scales[i / kGroup]), load(x + i)));
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
