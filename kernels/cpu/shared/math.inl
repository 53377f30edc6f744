// Arithmetic that every kernel shares: 2^x, unaligned reads.
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

/// Four neighbouring bytes.
TROUPE_INLINE std::int32_t four_bytes(const void* p) {
  std::int32_t x;
  std::memcpy(&x, p, 4);
  return x;
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
