// Sixteen virtual lanes as one 512-bit register.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kProductRows = 4, kProductVectors = 3, kWholeProductRows = 6;           // register tiles only: no result depends on them
constexpr int kScoreRows = 8, kValueRows = 4, kFloatTile = 8, kFloatTileVectors = 2;  // rows of attention that share a pass over a tile
constexpr int kAttentionSums = 12;                                                    // products in flight: two units, five cycles each
constexpr int kScoreVectors = 2, kValueVectors = 4;

using Floats = __m512;
using Ints = __m512i;
using Mask = __mmask16;
using UnsignedBytes = __m512i;
using SignedBytes = __m512i;
using Nibbles = __m512i;
using SignedQuad = __m512i;
using UnsignedQuad = __m512i;
using NibbleSum = __m512i;

TROUPE_INLINE Mask first(int n) { return static_cast<Mask>(n >= 16 ? 0xffffU : n <= 0 ? 0U : (1U << n) - 1); }
TROUPE_INLINE Floats set(float x) { return _mm512_set1_ps(x); }
TROUPE_INLINE Ints set_int(std::int32_t x) { return _mm512_set1_epi32(x); }
TROUPE_INLINE Floats load(const float* p) { return _mm512_loadu_ps(p); }
TROUPE_INLINE Floats load(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
TROUPE_INLINE void store(float* p, Floats x) { _mm512_storeu_ps(p, x); }
TROUPE_INLINE void store(float* p, Floats x, int n) { _mm512_mask_storeu_ps(p, first(n), x); }
TROUPE_INLINE Floats load_half(const std::uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
TROUPE_INLINE void store_half(std::uint16_t* p, Floats x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TROUPE_INLINE Floats load_bfloat(const std::uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/// Nearest even; NaN stays NaN.
TROUPE_INLINE void store_bfloat(std::uint16_t* p, Floats x) {
  const __m512i u = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i r = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

TROUPE_INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
TROUPE_INLINE Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
TROUPE_INLINE Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
TROUPE_INLINE Floats div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
TROUPE_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
TROUPE_INLINE Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
TROUPE_INLINE Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
TROUPE_INLINE Floats abs(Floats a) { return _mm512_abs_ps(a); }
/// The larger one of m, a magnitude, and |x|; NaN is larger than all.
TROUPE_INLINE Floats larger_magnitude(Floats m, Floats x) {
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(m), _mm512_castps_si512(abs(x))));
}
TROUPE_INLINE Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
TROUPE_INLINE Ints to_ints(Floats a) { return _mm512_cvtps_epi32(a); }
TROUPE_INLINE Floats add_exponent(Floats p, Floats t) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

TROUPE_INLINE Mask greater(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
TROUPE_INLINE Mask greater_equal(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
TROUPE_INLINE Mask equal(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
TROUPE_INLINE unsigned mask_bits(Mask m) { return m; }
TROUPE_INLINE Floats select(Mask m, Floats a, Floats b) { return _mm512_mask_blend_ps(m, b, a); }

TROUPE_INLINE Floats max_of_lanes(Floats v) {
  v = max(v, _mm512_shuffle_f32x4(v, v, 0x4e));
  v = max(v, _mm512_shuffle_f32x4(v, v, 0xb1));
  v = max(v, _mm512_permute_ps(v, 0x4e));
  return max(v, _mm512_permute_ps(v, 0xb1));
}
TROUPE_INLINE float low(Floats v) { return _mm512_cvtss_f32(v); }
TROUPE_INLINE float sum_of_lanes(Floats v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
TROUPE_INLINE int sum_of_ints(Ints v) { return _mm512_reduce_add_epi32(v); }
TROUPE_INLINE void store_signed_bytes(std::int8_t* p, Ints v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(v)); }
/// v >= 0.
TROUPE_INLINE void store_unsigned_bytes(std::uint8_t* p, Ints v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(v));
}
TROUPE_INLINE void deinterleave(Floats a, Floats b, Floats& even, Floats& odd) {
  const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  even = _mm512_permutex2var_ps(a, evens, b);
  odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(evens, _mm512_set1_epi32(1)), b);
}
TROUPE_INLINE void interleave(Floats even, Floats odd, Floats& a, Floats& b) {
  const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  a = _mm512_permutex2var_ps(even, lower, odd);
  b = _mm512_permutex2var_ps(even, _mm512_add_epi32(lower, _mm512_set1_epi32(8)), odd);
}

// vpdpbusd is exact: unsigned weights (w + 128, or a nibble) x signed activations, an embedded broadcast.
TROUPE_INLINE UnsignedBytes load_unsigned(const void* p) { return _mm512_loadu_si512(p); }
TROUPE_INLINE SignedBytes load_signed(const void* p) { return _mm512_loadu_si512(p); }
TROUPE_INLINE SignedQuad signed_quad(std::int32_t x) { return set_int(x); }
TROUPE_INLINE UnsignedQuad unsigned_quad(std::int32_t x) { return set_int(x); }
TROUPE_INLINE Ints bias(std::int32_t sum) { return set_int(-128 * sum); }
TROUPE_INLINE Ints bias_at(const std::int32_t* bias) { return set_int(*bias); }
TROUPE_INLINE Ints dot_weights(Ints c, UnsignedBytes w, SignedQuad x) { return _mm512_dpbusd_epi32(c, w, x); }
TROUPE_INLINE Ints dot_values(Ints c, SignedBytes v, UnsignedQuad p) { return _mm512_dpbusd_epi32(c, p, v); }

TROUPE_INLINE Nibbles load_nibbles(const void* p) { return _mm512_loadu_si512(p); }
TROUPE_INLINE void store_nibbles(void* p, Nibbles x) { _mm512_storeu_si512(p, x); }
TROUPE_INLINE Nibbles low_nibbles(Nibbles x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
TROUPE_INLINE Nibbles high_nibbles(Nibbles x) { return low_nibbles(_mm512_srli_epi16(x, 4)); }
TROUPE_INLINE NibbleSum no_nibbles() { return _mm512_setzero_si512(); }
TROUPE_INLINE NibbleSum dot_nibbles(NibbleSum c, Nibbles w, SignedQuad x) { return _mm512_dpbusd_epi32(c, w, x); }
TROUPE_INLINE NibbleSum join(NibbleSum a, NibbleSum b) { return _mm512_add_epi32(a, b); }
TROUPE_INLINE Ints nibble_total(NibbleSum x) { return x; }

TROUPE_INLINE Ints load_int32(const void* p) { return _mm512_loadu_si512(p); }
TROUPE_INLINE void store_int32(void* p, Ints x) { _mm512_storeu_si512(p, x); }
TROUPE_INLINE Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
TROUPE_INLINE Ints load_ints(const std::int8_t* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
/// The maxima of four vectors, and the sums of four: their shuffles are shared.
TROUPE_INLINE __m512 shuffle_pairs(__m512 a, __m512 b, bool odd) {
  return odd ? _mm512_shuffle_ps(a, b, 0xdd) : _mm512_shuffle_ps(a, b, 0x88);
}
TROUPE_INLINE void maxima_of_four(Floats a, Floats b, Floats c, Floats d, float* to) {
  const Floats ab = max(shuffle_pairs(a, b, false), shuffle_pairs(a, b, true)),
               cd = max(shuffle_pairs(c, d, false), shuffle_pairs(c, d, true));
  const Floats all = max(shuffle_pairs(ab, cd, false), shuffle_pairs(ab, cd, true));
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  _mm_storeu_ps(to, _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}
TROUPE_INLINE Ints sum_pairs(Ints a, Ints b) {
  const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
  return add(_mm512_castps_si512(shuffle_pairs(x, y, false)), _mm512_castps_si512(shuffle_pairs(x, y, true)));
}
TROUPE_INLINE void sums_of_four(Ints a, Ints b, Ints c, Ints d, std::int32_t* to) {
  const Ints all = sum_pairs(sum_pairs(a, b), sum_pairs(c, d));
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1)));
}
/// Lanes i and i + 2^kBit become their sum and their difference.
template <int kBit>
TROUPE_INLINE Floats butterfly(Floats x) {
  constexpr __mmask16 kUpper[] = {0xaaaa, 0xcccc, 0xf0f0, 0xff00};
  const Floats y = kBit == 0   ? _mm512_permute_ps(x, 0xb1)
                   : kBit == 1 ? _mm512_permute_ps(x, 0x4e)
                   : kBit == 2 ? _mm512_shuffle_f32x4(x, x, 0xb1)
                               : _mm512_shuffle_f32x4(x, x, 0x4e);
  return _mm512_mask_sub_ps(add(x, y), kUpper[kBit], y, x);
}
TROUPE_INLINE __m512i quads_of_four() { return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); }
/// 64 bytes of four vectors of values in [0, 255].
TROUPE_INLINE void store_unsigned_bytes(std::uint8_t* p, Ints a, Ints b, Ints c, Ints d) {
  const __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(quads_of_four(), bytes));
}
/// 64 bytes of four vectors, saturated.
TROUPE_INLINE void store_signed_bytes(std::int8_t* p, Ints a, Ints b, Ints c, Ints d) {
  const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(quads_of_four(), bytes));
}
/// p[4 i] = low byte of lane i; the bytes between stay as they are, another thread may write them.
TROUPE_INLINE void store_every_fourth(std::uint8_t* p, Ints x) { _mm512_mask_storeu_epi8(p, 0x1111111111111111ULL, x); }

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
