// The AVX-VNNI level: the lanes of AVX2, and exact products of unsigned and signed bytes.
#include "kernels/cpu/avx2/lanes.inl"

namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kProductRows = 4, kProductVectors = 1, kWholeProductRows = 4;  // register tiles only: no result depends on them
constexpr int kScoreRows = 4, kValueRows = 4, kFloatTile = 4, kFloatTileVectors = 1;
constexpr int kAttentionSums = 1;
constexpr int kScoreVectors = 1, kValueVectors = 1;

using UnsignedBytes = Ints;
using SignedBytes = Ints;
using Nibbles = Ints;
using SignedQuad = __m256i;
using UnsignedQuad = __m256i;
using NibbleSum = Ints;

// Weights and K are stored as w + 128; `bias` takes the 128 out again.
TROUPE_INLINE UnsignedBytes load_unsigned(const void* p) { return load_int32(p); }
TROUPE_INLINE SignedBytes load_signed(const void* p) { return load_int32(p); }
TROUPE_INLINE SignedQuad signed_quad(std::int32_t x) { return _mm256_set1_epi32(x); }
TROUPE_INLINE UnsignedQuad unsigned_quad(std::int32_t x) { return _mm256_set1_epi32(x); }
TROUPE_INLINE Ints bias(std::int32_t sum) { return set_int(-128 * sum); }
TROUPE_INLINE Ints bias_at(const std::int32_t* bias) { return set_int(*bias); }
TROUPE_INLINE Ints dot_weights(Ints c, UnsignedBytes w, SignedQuad x) {
  return {_mm256_dpbusd_avx_epi32(c.a, w.a, x), _mm256_dpbusd_avx_epi32(c.b, w.b, x)};
}
TROUPE_INLINE Ints dot_values(Ints c, SignedBytes v, UnsignedQuad p) {
  return {_mm256_dpbusd_avx_epi32(c.a, p, v.a), _mm256_dpbusd_avx_epi32(c.b, p, v.b)};
}

TROUPE_INLINE Nibbles load_nibbles(const void* p) { return load_int32(p); }
TROUPE_INLINE void store_nibbles(void* p, Nibbles x) { store_int32(p, x); }
TROUPE_INLINE __m256i low_four(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
TROUPE_INLINE Nibbles low_nibbles(Nibbles x) { return {low_four(x.a), low_four(x.b)}; }
TROUPE_INLINE Nibbles high_nibbles(Nibbles x) { return {low_four(_mm256_srli_epi16(x.a, 4)), low_four(_mm256_srli_epi16(x.b, 4))}; }
TROUPE_INLINE NibbleSum no_nibbles() { return set_int(0); }
TROUPE_INLINE NibbleSum dot_nibbles(NibbleSum c, Nibbles w, SignedQuad x) { return dot_weights(c, w, x); }
TROUPE_INLINE NibbleSum join(NibbleSum x, NibbleSum y) { return add(x, y); }
TROUPE_INLINE Ints nibble_total(NibbleSum x) { return x; }

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
