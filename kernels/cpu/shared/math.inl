// Arithmetic that every kernel shares: 2^x, symmetric quantization, unaligned reads.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

TROUPE_INLINE Floats zero() { return set(0.0F); }

/// 2^x for x <= 125. Clamped at -125, so no denormal appears; split at the nearest integer; degree 5, coefficient 0 exactly 1, so
/// that 2^0 = 1. Relative error 1.1e-7.
TROUPE_INLINE Floats exp2p(Floats x) {
  const Floats magic = set(0x1.8p23F);
  x = max(x, set(-125.0F));
  const Floats t = add(x, magic);
  const Floats f = sub(x, sub(t, magic));
  Floats p = set(0x1.5bba14p-10F);
  p = fma(p, f, set(0x1.3cea88p-7F));
  p = fma(p, f, set(0x1.c6b752p-5F));
  p = fma(p, f, set(0x1.ebf9bcp-3F));
  p = fma(p, f, set(0x1.62e42ap-1F));
  p = fma(p, f, set(1.0F));
  return add_exponent(p, t);
}

/// Largest magnitude of n floats, n a multiple of 16.
TROUPE_INLINE float largest_magnitude(const float* x, int n) {
  Floats m = zero();
  for (int i = 0; i < n; i += 16) m = max(m, abs(load(x + i)));
  return low(max_of_lanes(m));
}
/// 127 / amax; 0 for a row that is zero or so small that the quotient would be infinite.
TROUPE_INLINE float inverse_scale(float amax) { return amax > 0x1p-100F ? 127.0F / amax : 0.0F; }
/// q = nearest(x * inverse) in [-127, 127], n a multiple of 16; returns the sum of q. What is not a number becomes -127, so that a
/// broken model computes nonsense, but never an overflow.
TROUPE_INLINE std::int32_t quantize(const float* x, int n, float inverse, std::int8_t* q) {
  const Floats factor = set(inverse);
  std::int32_t sum = 0;
  for (int i = 0; i < n; i += 16) {
    const Ints v = to_ints(min(max(mul(load(x + i), factor), set(-127.0F)), set(127.0F)));
    store_signed_bytes(q + i, v);
    sum += sum_of_ints(v);
  }
  return sum;
}

/// Four neighbouring bytes.
TROUPE_INLINE std::int32_t four_bytes(const void* p) {
  std::int32_t x;
  std::memcpy(&x, p, 4);
  return x;
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
