// Weights as floats, bf16 arithmetic, and the register tiles of float products (no result depends on them).
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kFloatRows = 1, kFloatVectors = 1, kWideningRows = 1, kWideningVectors = 1;  // rows, vectors of 16 outputs

TROUPE_INLINE Ints shift_right(const Ints& x, const Ints& count) {
  return int_lanes([&](int i) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(x.v[i]) >> count.v[i]); });
}
/// The lower nibble of each byte.
TROUPE_INLINE Ints low_fours(const Ints& x) {
  return int_lanes([&](int i) { return x.v[i] & 0x0f0f0f0f; });
}
template <int kByte>
TROUPE_INLINE Floats byte_as_float(const Ints& x) {
  return lanes([&](int i) { return static_cast<float>(x.v[i] >> 8 * kByte & 255); });
}
/// A pair of bf16 in each lane.
TROUPE_INLINE Floats lower_bfloat(const Ints& x) {
  return lanes([&](int i) { return float_of(static_cast<std::uint32_t>(x.v[i]) << 16); });
}
TROUPE_INLINE Floats upper_bfloat(const Ints& x) {
  return lanes([&](int i) { return float_of(static_cast<std::uint32_t>(x.v[i]) & 0xffff0000U); });
}
TROUPE_INLINE Floats swap_neighbours(const Floats& x) {
  return lanes([&](int i) { return x.v[i ^ 1]; });
}
/// Denormals are zero; then nearest even.
TROUPE_INLINE Floats round_bfloat(const Floats& x) {
  return lanes([&](int i) {
    const std::uint32_t u = bits_of(x.v[i]), size = u & 0x7fffffffU;
    if (size > 0x7f800000U) return float_of((u | 0x400000U) & 0xffff0000U);
    if (size < 0x00800000U) return float_of(u & 0x80000000U);
    return float_of((u + 0x7fffU + (u >> 16 & 1U)) & 0xffff0000U);
  });
}

// Arithmetic without denormals: they are zero as inputs, and a result that would be one after rounding is zero.
struct FlushDenormals {};  // other levels set a mode
TROUPE_INLINE float flushed(float x) { return (bits_of(x) & 0x7f800000U) == 0 ? float_of(bits_of(x) & 0x80000000U) : x; }
TROUPE_INLINE float flushed_fma(float a, float b, float c) {
  a = flushed(a), b = flushed(b), c = flushed(c);
  const float r = __builtin_fmaf(a, b, c);
  if (__builtin_fabsf(r) != 0x1p-126F) return flushed(r);
  // The smallest normal: did it round up to it from what has one more bit there than a denormal? a * b is exact in double (bf16).
  const double product = static_cast<double>(a) * b, sum = product + c, limit = 0x1p-126 - 0x1p-151;
  const double part = sum - product, error = (product - (sum - part)) + (c - part);
  const double size = __builtin_fabs(sum);
  const bool below = size < limit || (size == limit && error != 0 && (error < 0) == (sum > 0));
  return below ? __builtin_copysignf(0.0F, r) : r;
}
/// In the scope of FlushDenormals.
TROUPE_INLINE Floats fma_flushed(const Floats& a, const Floats& b, const Floats& c) {
  return lanes([&](int i) { return flushed_fma(a.v[i], b.v[i], c.v[i]); });
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
