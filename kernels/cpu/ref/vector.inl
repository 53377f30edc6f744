// Sixteen virtual lanes as plain arrays: the reference of all levels. Slow and obvious.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kProductRows = 1, kProductVectors = 1,
              kWholeProductRows = 1;  // register tile of a matrix product: rows, vectors of 16 columns
constexpr int kScoreRows = 1, kValueRows = 1, kFloatTile = 1, kFloatTileVectors = 1;  // rows of attention that share a pass over a tile
constexpr int kAttentionSums = 1;
constexpr int kScoreVectors = 1, kValueVectors = 1;

struct Floats {
  float v[16];
};
struct Ints {
  std::int32_t v[16];
};
struct Mask {
  bool v[16];
};
// 64 bytes: 4 neighbouring inputs of 16 outputs.
struct Bytes {
  std::int16_t v[64];
};
struct Quad {
  std::int16_t v[4];
};
using UnsignedBytes = Bytes;
using SignedBytes = Bytes;
using Nibbles = Bytes;
using SignedQuad = Quad;
using UnsignedQuad = Quad;
using NibbleSum = Ints;

template <typename Op>
TROUPE_INLINE Floats lanes(Op op) {
  Floats r;
  for (int i = 0; i < 16; ++i) r.v[i] = op(i);
  return r;
}
template <typename Op>
TROUPE_INLINE Ints int_lanes(Op op) {
  Ints r;
  for (int i = 0; i < 16; ++i) r.v[i] = op(i);
  return r;
}

TROUPE_INLINE std::uint32_t bits_of(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
TROUPE_INLINE float float_of(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
TROUPE_INLINE float half_to_float(std::uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const std::uint32_t sign = static_cast<std::uint32_t>(h >> 15) << 31;
  if (exponent == 31) return float_of(sign | 0x7f800000U | static_cast<std::uint32_t>(mantissa) << 13);
  const float size =
      exponent ? __builtin_ldexpf(static_cast<float>(mantissa + 1024), exponent - 25) : __builtin_ldexpf(static_cast<float>(mantissa), -24);
  return float_of(bits_of(size) | sign);
}
/// Nearest even, as vcvtps2ph does it.
TROUPE_INLINE std::uint16_t float_to_half(float x) {
  const std::uint32_t u = bits_of(x), sign = u >> 16 & 0x8000U, size = u & 0x7fffffffU;
  if (size > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | (size >> 13 & 0x1ffU));
  if (size >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (size < 0x38800000U) {  // subnormal: adding 0.5 leaves units of 2^-24, rounded by the adder
    const float shifted = float_of(size) + 0.5F;
    return static_cast<std::uint16_t>(sign | (bits_of(shifted) - 0x3f000000U));
  }
  return static_cast<std::uint16_t>(sign | ((size - 0x38000000U + 0xfffU + (size >> 13 & 1U)) >> 13));
}

TROUPE_INLINE Floats set(float x) {
  return lanes([=](int) { return x; });
}
TROUPE_INLINE Ints set_int(std::int32_t x) {
  return int_lanes([=](int) { return x; });
}
TROUPE_INLINE Floats load(const float* p) {
  return lanes([=](int i) { return p[i]; });
}
TROUPE_INLINE Floats load(const float* p, int n) {
  return lanes([=](int i) { return i < n ? p[i] : 0.0F; });
}
TROUPE_INLINE void store(float* p, const Floats& x) { std::memcpy(p, x.v, 64); }
TROUPE_INLINE void store(float* p, const Floats& x, int n) {
  std::memcpy(p, x.v, static_cast<std::size_t>(n < 0 ? 0 : n < 16 ? n : 16) * 4);
}
TROUPE_INLINE Floats load_half(const std::uint16_t* p) {
  return lanes([=](int i) { return half_to_float(p[i]); });
}
TROUPE_INLINE void store_half(std::uint16_t* p, const Floats& x) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_half(x.v[i]);
}
TROUPE_INLINE Floats load_bfloat(const std::uint16_t* p) {
  return lanes([=](int i) { return float_of(static_cast<std::uint32_t>(p[i]) << 16); });
}

/// Nearest even; NaN stays NaN.
TROUPE_INLINE void store_bfloat(std::uint16_t* p, const Floats& x) {
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t u = bits_of(x.v[i]), nan = u | 0x400000U, rounded = u + 0x7fffU + (u >> 16 & 1U);
    p[i] = static_cast<std::uint16_t>(((u & 0x7fffffffU) > 0x7f800000U ? nan : rounded) >> 16);
  }
}

TROUPE_INLINE Floats add(const Floats& a, const Floats& b) {
  return lanes([&](int i) { return a.v[i] + b.v[i]; });
}
TROUPE_INLINE Floats sub(const Floats& a, const Floats& b) {
  return lanes([&](int i) { return a.v[i] - b.v[i]; });
}
TROUPE_INLINE Floats mul(const Floats& a, const Floats& b) {
  return lanes([&](int i) { return a.v[i] * b.v[i]; });
}
TROUPE_INLINE Floats div(const Floats& a, const Floats& b) {
  return lanes([&](int i) { return a.v[i] / b.v[i]; });
}
TROUPE_INLINE Floats fma(const Floats& a, const Floats& b, const Floats& c) {
  return lanes([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
TROUPE_INLINE Floats max(const Floats& a, const Floats& b) {
  return lanes([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
TROUPE_INLINE Floats min(const Floats& a, const Floats& b) {
  return lanes([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
TROUPE_INLINE Floats abs(const Floats& a) {
  return lanes([&](int i) { return float_of(bits_of(a.v[i]) & 0x7fffffffU); });
}
/// The larger one of m, a magnitude, and |x|; NaN is larger than all.
TROUPE_INLINE Floats larger_magnitude(const Floats& m, const Floats& x) {
  const Floats size = abs(x);
  return lanes([&](int i) { return bits_of(m.v[i]) > bits_of(size.v[i]) ? m.v[i] : size.v[i]; });
}
TROUPE_INLINE Floats to_floats(const Ints& a) {
  return lanes([&](int i) { return static_cast<float>(a.v[i]); });
}
/// Nearest even; out of range and NaN give INT_MIN, as the instruction does.
TROUPE_INLINE Ints to_ints(const Floats& a) {
  return int_lanes([&](int i) {
    const float r = __builtin_rintf(a.v[i]);
    return r >= -0x1p31F && r < 0x1p31F ? static_cast<std::int32_t>(r) : INT32_MIN;
  });
}
/// p * 2^t, where t holds the integer in its low bits.
TROUPE_INLINE Floats add_exponent(const Floats& p, const Floats& t) {
  return lanes([&](int i) { return float_of(bits_of(p.v[i]) + (bits_of(t.v[i]) << 23)); });
}

TROUPE_INLINE Mask first(int n) {
  Mask m;
  for (int i = 0; i < 16; ++i) m.v[i] = i < n;
  return m;
}
TROUPE_INLINE Mask greater(const Floats& a, const Floats& b) {
  Mask m;
  for (int i = 0; i < 16; ++i) m.v[i] = a.v[i] > b.v[i];
  return m;
}
TROUPE_INLINE Mask greater_equal(const Floats& a, const Floats& b) {
  Mask m;
  for (int i = 0; i < 16; ++i) m.v[i] = a.v[i] >= b.v[i];
  return m;
}
TROUPE_INLINE Mask equal(const Floats& a, const Floats& b) {
  Mask m;
  for (int i = 0; i < 16; ++i) m.v[i] = a.v[i] == b.v[i];
  return m;
}
TROUPE_INLINE unsigned mask_bits(const Mask& m) {
  unsigned bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<unsigned>(m.v[i]) << i;
  return bits;
}
TROUPE_INLINE Floats select(const Mask& m, const Floats& a, const Floats& b) {
  return lanes([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}
/// The maximum, in all lanes.
TROUPE_INLINE Floats max_of_lanes(const Floats& a) {
  float m = a.v[0];
  for (int i = 1; i < 16; ++i) m = m > a.v[i] ? m : a.v[i];
  return set(m);
}
TROUPE_INLINE float low(const Floats& a) { return a.v[0]; }
/// The one tree of additions: i + 8, i + 4, i + 2, i + 1.
TROUPE_INLINE float sum_of_lanes(Floats a) {
  for (int h = 8; h; h /= 2)
    for (int i = 0; i < h; ++i) a.v[i] = a.v[i] + a.v[i + h];
  return a.v[0];
}
TROUPE_INLINE int sum_of_ints(const Ints& a) {
  int s = 0;
  for (int i = 0; i < 16; ++i) s += a.v[i];
  return s;
}
TROUPE_INLINE int clamp(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }
TROUPE_INLINE void store_signed_bytes(std::int8_t* p, const Ints& x) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(clamp(x.v[i], -128, 127));
}
TROUPE_INLINE void store_unsigned_bytes(std::uint8_t* p, const Ints& x) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::uint8_t>(clamp(x.v[i], 0, 255));
}
/// (0, 1), (2, 3) ... of a then b -> evens, odds; and back.
TROUPE_INLINE void deinterleave(const Floats& a, const Floats& b, Floats& even, Floats& odd) {
  for (int i = 0; i < 16; ++i) {
    even.v[i] = i < 8 ? a.v[2 * i] : b.v[2 * i - 16];
    odd.v[i] = i < 8 ? a.v[2 * i + 1] : b.v[2 * i - 15];
  }
}
TROUPE_INLINE void interleave(const Floats& even, const Floats& odd, Floats& a, Floats& b) {
  for (int i = 0; i < 8; ++i) {
    a.v[2 * i] = even.v[i];
    a.v[2 * i + 1] = odd.v[i];
    b.v[2 * i] = even.v[i + 8];
    b.v[2 * i + 1] = odd.v[i + 8];
  }
}

// Products of bytes, exact in int32. Weights and K are stored as w + 128; `bias` takes the 128 out again.
TROUPE_INLINE UnsignedBytes load_unsigned(const void* p) {
  Bytes r;
  for (int i = 0; i < 64; ++i) r.v[i] = static_cast<const std::uint8_t*>(p)[i];
  return r;
}
TROUPE_INLINE SignedBytes load_signed(const void* p) {
  Bytes r;
  for (int i = 0; i < 64; ++i) r.v[i] = static_cast<const std::int8_t*>(p)[i];
  return r;
}
TROUPE_INLINE SignedQuad signed_quad(std::int32_t x) {
  Quad r;
  for (int i = 0; i < 4; ++i) r.v[i] = static_cast<std::int8_t>(x >> 8 * i);
  return r;
}
TROUPE_INLINE UnsignedQuad unsigned_quad(std::int32_t x) {
  Quad r;
  for (int i = 0; i < 4; ++i) r.v[i] = static_cast<std::uint8_t>(x >> 8 * i);
  return r;
}
TROUPE_INLINE Ints bias(std::int32_t sum) { return set_int(-128 * sum); }
TROUPE_INLINE Ints bias_at(const std::int32_t* bias) { return set_int(*bias); }
TROUPE_INLINE Ints dot_weights(Ints c, const UnsignedBytes& w, const SignedQuad& x) {
  for (int i = 0; i < 64; ++i) c.v[i / 4] += w.v[i] * x.v[i % 4];
  return c;
}
TROUPE_INLINE Ints dot_values(const Ints& c, const SignedBytes& v, const UnsignedQuad& p) { return dot_weights(c, v, p); }

// 4-bit weights.
TROUPE_INLINE Nibbles load_nibbles(const void* p) { return load_unsigned(p); }
TROUPE_INLINE void store_nibbles(void* p, const Nibbles& x) {
  for (int i = 0; i < 64; ++i) static_cast<std::uint8_t*>(p)[i] = static_cast<std::uint8_t>(x.v[i]);
}
TROUPE_INLINE Nibbles low_nibbles(Nibbles x) {
  for (auto& v : x.v) v = static_cast<std::int16_t>(v & 15);
  return x;
}
TROUPE_INLINE Nibbles high_nibbles(Nibbles x) {
  for (auto& v : x.v) v = static_cast<std::int16_t>(v >> 4);
  return x;
}
TROUPE_INLINE NibbleSum no_nibbles() { return set_int(0); }
TROUPE_INLINE NibbleSum dot_nibbles(const NibbleSum& c, const Nibbles& w, const SignedQuad& x) { return dot_weights(c, w, x); }
TROUPE_INLINE NibbleSum join(const NibbleSum& a, const NibbleSum& b) {
  return int_lanes([&](int i) { return a.v[i] + b.v[i]; });
}
TROUPE_INLINE Ints nibble_total(const NibbleSum& x) { return x; }

TROUPE_INLINE Ints load_int32(const void* p) {
  Ints r;
  std::memcpy(r.v, p, 64);
  return r;
}
TROUPE_INLINE void store_int32(void* p, const Ints& x) { std::memcpy(p, x.v, 64); }
TROUPE_INLINE Ints add(const Ints& a, const Ints& b) {
  return int_lanes([&](int i) { return a.v[i] + b.v[i]; });
}
TROUPE_INLINE Ints load_ints(const std::int8_t* p) {
  return int_lanes([&](int i) { return p[i]; });
}
TROUPE_INLINE void maxima_of_four(const Floats& a, const Floats& b, const Floats& c, const Floats& d, float* to) {
  const Floats* all[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) to[i] = low(max_of_lanes(*all[i]));
}
TROUPE_INLINE void sums_of_four(const Ints& a, const Ints& b, const Ints& c, const Ints& d, std::int32_t* to) {
  const Ints* all[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) to[i] = sum_of_ints(*all[i]);
}
/// Lanes i and i + 2^kBit become their sum and their difference.
template <int kBit>
TROUPE_INLINE Floats butterfly(const Floats& x) {
  constexpr int kOther = 1 << kBit;
  return lanes([&](int i) { return i & kOther ? x.v[i - kOther] - x.v[i] : x.v[i] + x.v[i + kOther]; });
}
/// 64 bytes of four vectors of values in [0, 255].
TROUPE_INLINE void store_unsigned_bytes(std::uint8_t* p, const Ints& a, const Ints& b, const Ints& c, const Ints& d) {
  const Ints* all[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) store_unsigned_bytes(p + 16 * i, *all[i]);
}
/// 64 bytes of four vectors, saturated.
TROUPE_INLINE void store_signed_bytes(std::int8_t* p, const Ints& a, const Ints& b, const Ints& c, const Ints& d) {
  const Ints* all[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) store_signed_bytes(p + 16 * i, *all[i]);
}
/// p[4 i] = low byte of lane i; the bytes between stay as they are, another thread may write them.
TROUPE_INLINE void store_every_fourth(std::uint8_t* p, const Ints& x) {
  for (int i = 0; i < 16; ++i) p[4 * i] = static_cast<std::uint8_t>(x.v[i]);
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
