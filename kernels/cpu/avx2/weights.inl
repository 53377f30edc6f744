// Weights as floats, bf16 arithmetic, and the register tiles of float products (no result depends on them).
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kFloatRows = 6, kFloatVectors = 1, kWideningRows = 2, kWideningVectors = 1;  // rows, vectors of 16 outputs

TROUPE_INLINE Ints shift_right(Ints x, Ints count) { return {_mm256_srlv_epi32(x.a, count.a), _mm256_srlv_epi32(x.b, count.b)}; }
TROUPE_INLINE __m256i four_bits(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
TROUPE_INLINE Ints low_fours(Ints x) { return {four_bits(x.a), four_bits(x.b)}; }
template <int kByte>
TROUPE_INLINE __m256 byte_of_eight(__m256i x) {
  if (kByte > 0) x = _mm256_srli_epi32(x, 8 * kByte);
  if (kByte < 3) x = _mm256_and_si256(x, _mm256_set1_epi32(255));
  return _mm256_cvtepi32_ps(x);
}
template <int kByte>
TROUPE_INLINE Floats byte_as_float(Ints x) {
  return {byte_of_eight<kByte>(x.a), byte_of_eight<kByte>(x.b)};
}
TROUPE_INLINE Floats lower_bfloat(Ints x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(x.a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(x.b, 16))};
}
TROUPE_INLINE __m256 upper_half(__m256i x) { return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-0x10000))); }
TROUPE_INLINE Floats upper_bfloat(Ints x) { return {upper_half(x.a), upper_half(x.b)}; }
TROUPE_INLINE Floats swap_neighbours(Floats x) { return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)}; }
TROUPE_INLINE __m256 round_eight(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  r = _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  const __m256i exponent = _mm256_and_si256(u, _mm256_set1_epi32(0x7f800000));
  const __m256i nothing = _mm256_and_si256(u, _mm256_set1_epi32(INT32_MIN));
  return upper_half(_mm256_blendv_epi8(r, nothing, _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256())));
}
TROUPE_INLINE Floats round_bfloat(Floats x) { return {round_eight(x.a), round_eight(x.b)}; }

/// While it lives: denormal inputs and results of this thread's arithmetic are zero, as the bf16 instructions have it.
struct FlushDenormals {
  const unsigned before = _mm_getcsr();
  TROUPE_MEMBER FlushDenormals() { _mm_setcsr(before | 0x8040U); }
  TROUPE_MEMBER ~FlushDenormals() { _mm_setcsr(before); }
};
/// In the scope of FlushDenormals.
TROUPE_INLINE Floats fma_flushed(Floats a, Floats b, Floats c) { return fma(a, b, c); }

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
