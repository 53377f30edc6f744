// Weights as floats, bf16 arithmetic, and the register tiles of float products (no result depends on them).
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kFloatRows = 8, kFloatVectors = 3, kWideningRows = 4, kWideningVectors = 3;  // rows, vectors of 16 outputs

TROUPE_INLINE Ints shift_right(Ints x, Ints count) { return _mm512_srlv_epi32(x, count); }
TROUPE_INLINE Ints low_fours(Ints x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
template <int kByte>
TROUPE_INLINE Floats byte_as_float(Ints x) {
  if (kByte > 0) x = _mm512_srli_epi32(x, 8 * kByte);
  if (kByte < 3) x = _mm512_and_si512(x, _mm512_set1_epi32(255));
  return _mm512_cvtepi32_ps(x);
}
TROUPE_INLINE Floats lower_bfloat(Ints x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
TROUPE_INLINE Floats upper_bfloat(Ints x) { return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-0x10000))); }
TROUPE_INLINE Floats swap_neighbours(Floats x) { return _mm512_permute_ps(x, 0xb1); }
TROUPE_INLINE Floats round_bfloat(Floats x) {
  const __m512i u = _mm512_castps_si512(x), sign = _mm512_set1_epi32(INT32_MIN);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
  r = _mm512_mask_and_epi32(r, _mm512_testn_epi32_mask(u, _mm512_set1_epi32(0x7f800000)), u, sign);
  return upper_bfloat(r);
}

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
