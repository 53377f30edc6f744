// The AVX2 level: two 256-bit registers a lane set, and products of bytes without VNNI.
#include "kernels/cpu/avx2/lanes.inl"

namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kProductRows = 4, kProductVectors = 1, kWholeProductRows = 4;  // register tiles only: no result depends on them
constexpr int kScoreRows = 4, kValueRows = 4, kFloatTile = 4, kFloatTileVectors = 1;
constexpr int kAttentionSums = 1;
constexpr int kScoreVectors = 1, kValueVectors = 1;

// Signed weights as size and sign, so that maddubs (unsigned x signed) cannot saturate: 2 x 128 x 127 fits int16.
struct UnsignedBytes {
  __m256i size0, sign0, size1, sign1;
};
// Even and odd bytes widened to int16, for madd_epi16.
struct SignedBytes {
  __m256i even0, odd0, even1, odd1;
};
struct Nibbles {
  __m256i a, b;
};
using SignedQuad = __m256i;
struct UnsignedQuad {
  __m256i even, odd;
};
using NibbleSum = Ints;  // int16 lanes

// Stored as w + 128; taken back to signed here, so no bias is needed.
TROUPE_INLINE __m256i to_signed(__m256i x) { return _mm256_xor_si256(x, _mm256_set1_epi8(-128)); }
TROUPE_INLINE UnsignedBytes load_unsigned(const void* p) {
  const __m256i x = to_signed(load_bytes(p)), y = to_signed(load_bytes(second(p)));
  return {_mm256_abs_epi8(x), x, _mm256_abs_epi8(y), y};
}
TROUPE_INLINE SignedQuad signed_quad(std::int32_t x) { return _mm256_set1_epi32(x); }
TROUPE_INLINE Ints bias(std::int32_t) { return set_int(0); }
TROUPE_INLINE Ints bias_at(const std::int32_t*) { return set_int(0); }
TROUPE_INLINE __m256i dot_signed(__m256i c, __m256i size, __m256i sign, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x, sign));
  return _mm256_add_epi32(c, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
TROUPE_INLINE Ints dot_weights(Ints c, UnsignedBytes w, SignedQuad x) {
  return {dot_signed(c.a, w.size0, w.sign0, x), dot_signed(c.b, w.size1, w.sign1, x)};
}
TROUPE_INLINE __m256i even_bytes(__m256i x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
TROUPE_INLINE __m256i odd_bytes(__m256i x) { return _mm256_srai_epi16(x, 8); }
TROUPE_INLINE SignedBytes load_signed(const void* p) {
  const __m256i x = load_bytes(p), y = load_bytes(second(p));
  return {even_bytes(x), odd_bytes(x), even_bytes(y), odd_bytes(y)};
}
TROUPE_INLINE UnsignedQuad unsigned_quad(std::int32_t v) {
  const __m256i x = _mm256_set1_epi32(v);
  return {_mm256_and_si256(x, _mm256_set1_epi16(255)), _mm256_srli_epi16(x, 8)};
}
TROUPE_INLINE __m256i dot_words(__m256i c, __m256i even, __m256i odd, UnsignedQuad p) {
  return _mm256_add_epi32(c, _mm256_add_epi32(_mm256_madd_epi16(even, p.even), _mm256_madd_epi16(odd, p.odd)));
}
TROUPE_INLINE Ints dot_values(Ints c, SignedBytes v, UnsignedQuad p) {
  return {dot_words(c.a, v.even0, v.odd0, p), dot_words(c.b, v.even1, v.odd1, p)};
}

// 4-bit weights: 8 steps x 2 x 15 x 127 = 30480 < 32768, so a whole group of 32 stays in int16 and is widened once.
TROUPE_INLINE Nibbles load_nibbles(const void* p) { return {load_bytes(p), load_bytes(second(p))}; }
TROUPE_INLINE void store_nibbles(void* p, Nibbles x) { store_int32(p, {x.a, x.b}); }
TROUPE_INLINE __m256i low_four(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
TROUPE_INLINE Nibbles low_nibbles(Nibbles x) { return {low_four(x.a), low_four(x.b)}; }
TROUPE_INLINE Nibbles high_nibbles(Nibbles x) { return {low_four(_mm256_srli_epi16(x.a, 4)), low_four(_mm256_srli_epi16(x.b, 4))}; }
TROUPE_INLINE NibbleSum no_nibbles() { return set_int(0); }
TROUPE_INLINE NibbleSum dot_nibbles(NibbleSum c, Nibbles w, SignedQuad x) {
  return {_mm256_add_epi16(c.a, _mm256_maddubs_epi16(w.a, x)), _mm256_add_epi16(c.b, _mm256_maddubs_epi16(w.b, x))};
}
TROUPE_INLINE NibbleSum join(NibbleSum x, NibbleSum y) { return {_mm256_add_epi16(x.a, y.a), _mm256_add_epi16(x.b, y.b)}; }
TROUPE_INLINE Ints nibble_total(NibbleSum x) {
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(x.a, one), _mm256_madd_epi16(x.b, one)};
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
