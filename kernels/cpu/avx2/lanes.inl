// Sixteen virtual lanes as two 256-bit registers: all but products of bytes. The levels avx2 and avx_vnni share it.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

struct Floats {
  __m256 a, b;
};
struct Ints {
  __m256i a, b;
};
using Mask = Floats;

TROUPE_INLINE __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
TROUPE_INLINE const char* second(const void* p) { return static_cast<const char*>(p) + 32; }

TROUPE_INLINE Mask first(int n) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), index)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), index))};
}
TROUPE_INLINE Floats set(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
TROUPE_INLINE Ints set_int(std::int32_t x) {
  const __m256i v = _mm256_set1_epi32(x);
  return {v, v};
}
TROUPE_INLINE Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TROUPE_INLINE Floats load(const float* p, int n) {
  const Mask m = first(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
TROUPE_INLINE void store(float* p, Floats x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
TROUPE_INLINE void store(float* p, Floats x, int n) {
  const Mask m = first(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}
TROUPE_INLINE __m128i load_eight(const std::uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
TROUPE_INLINE Floats load_half(const std::uint16_t* p) { return {_mm256_cvtph_ps(load_eight(p)), _mm256_cvtph_ps(load_eight(p + 8))}; }
TROUPE_INLINE void store_half(std::uint16_t* p, Floats x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, kNearest));
}
TROUPE_INLINE __m256 eight_bfloats(const std::uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_eight(p)), 16));
}
TROUPE_INLINE Floats load_bfloat(const std::uint16_t* p) { return {eight_bfloats(p), eight_bfloats(p + 8)}; }
/// Nearest even; NaN stays NaN.
TROUPE_INLINE __m256i bfloat_bits(__m256 x) {
  const __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
TROUPE_INLINE void store_bfloat(std::uint16_t* p, Floats x) {
  const __m256i words = _mm256_packus_epi32(bfloat_bits(x.a), bfloat_bits(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}

TROUPE_INLINE Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
TROUPE_INLINE Floats sub(Floats x, Floats y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
TROUPE_INLINE Floats mul(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
TROUPE_INLINE Floats div(Floats x, Floats y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
TROUPE_INLINE Floats fma(Floats x, Floats y, Floats z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
TROUPE_INLINE Floats max(Floats x, Floats y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
TROUPE_INLINE Floats min(Floats x, Floats y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
TROUPE_INLINE Floats abs(Floats x) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
/// The larger one of m, a magnitude, and |x|; NaN is larger than all.
TROUPE_INLINE Floats larger_magnitude(Floats m, Floats x) {
  const Floats size = abs(x);
  return {_mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(m.a), _mm256_castps_si256(size.a))),
          _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(m.b), _mm256_castps_si256(size.b)))};
}
TROUPE_INLINE Floats to_floats(Ints x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
TROUPE_INLINE Ints to_ints(Floats x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
TROUPE_INLINE __m256 add_exponent_half(__m256 p, __m256 t) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
TROUPE_INLINE Floats add_exponent(Floats p, Floats t) { return {add_exponent_half(p.a, t.a), add_exponent_half(p.b, t.b)}; }

TROUPE_INLINE Mask greater(Floats x, Floats y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)}; }
TROUPE_INLINE Mask greater_equal(Floats x, Floats y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)}; }
TROUPE_INLINE Mask equal(Floats x, Floats y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)}; }
TROUPE_INLINE unsigned mask_bits(Mask m) {
  return static_cast<unsigned>(_mm256_movemask_ps(m.a)) | static_cast<unsigned>(_mm256_movemask_ps(m.b)) << 8;
}
TROUPE_INLINE Floats select(Mask m, Floats x, Floats y) { return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)}; }

TROUPE_INLINE Floats max_of_lanes(Floats x) {
  __m256 v = _mm256_max_ps(x.a, x.b);
  v = _mm256_max_ps(v, _mm256_permute2f128_ps(v, v, 1));
  v = _mm256_max_ps(v, _mm256_permute_ps(v, 0x4e));
  v = _mm256_max_ps(v, _mm256_permute_ps(v, 0xb1));
  return {v, v};
}
TROUPE_INLINE float low(Floats v) { return _mm256_cvtss_f32(v.a); }
TROUPE_INLINE float sum_of_lanes(Floats v) {
  const __m256 eight = _mm256_add_ps(v.a, v.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
TROUPE_INLINE int sum_of_ints(Ints v) {
  const __m256i eight = _mm256_add_epi32(v.a, v.b);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
TROUPE_INLINE __m256i saturate_words(Ints v) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8); }
TROUPE_INLINE void store_signed_bytes(std::int8_t* p, Ints v) {
  const __m256i w = saturate_words(v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
TROUPE_INLINE void store_unsigned_bytes(std::uint8_t* p, Ints v) {
  const __m256i w = saturate_words(v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
TROUPE_INLINE __m256 pack_lanes(__m256 v) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8)); }
TROUPE_INLINE void deinterleave(Floats a, Floats b, Floats& even, Floats& odd) {
  even = {pack_lanes(_mm256_shuffle_ps(a.a, a.b, 0x88)), pack_lanes(_mm256_shuffle_ps(b.a, b.b, 0x88))};
  odd = {pack_lanes(_mm256_shuffle_ps(a.a, a.b, 0xdd)), pack_lanes(_mm256_shuffle_ps(b.a, b.b, 0xdd))};
}
TROUPE_INLINE Floats interleave_half(__m256 even, __m256 odd) {
  const __m256 lower = _mm256_unpacklo_ps(even, odd), upper = _mm256_unpackhi_ps(even, odd);
  return {_mm256_permute2f128_ps(lower, upper, 0x20), _mm256_permute2f128_ps(lower, upper, 0x31)};
}
TROUPE_INLINE void interleave(Floats even, Floats odd, Floats& a, Floats& b) {
  a = interleave_half(even.a, odd.a);
  b = interleave_half(even.b, odd.b);
}

TROUPE_INLINE Ints load_int32(const void* p) { return {load_bytes(p), load_bytes(second(p))}; }
TROUPE_INLINE void store_int32(void* p, Ints x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(static_cast<__m256i*>(p) + 1, x.b);
}
TROUPE_INLINE Ints add(Ints x, Ints y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
TROUPE_INLINE Ints load_ints(const std::int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
/// The maxima of four vectors, and the sums of four: their shuffles are shared.
TROUPE_INLINE __m256 max_pairs(__m256 x, __m256 y) { return _mm256_max_ps(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xdd)); }
TROUPE_INLINE void maxima_of_four(Floats x, Floats y, Floats z, Floats w, float* to) {
  const __m256 all =
      max_pairs(max_pairs(_mm256_max_ps(x.a, x.b), _mm256_max_ps(y.a, y.b)), max_pairs(_mm256_max_ps(z.a, z.b), _mm256_max_ps(w.a, w.b)));
  _mm_storeu_ps(to, _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
TROUPE_INLINE void sums_of_four(Ints x, Ints y, Ints z, Ints w, std::int32_t* to) {
  const auto joined = [](Ints v) { return _mm256_add_epi32(v.a, v.b); };
  const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(joined(x), joined(y)), _mm256_hadd_epi32(joined(z), joined(w)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
}
/// Lanes i and i + 2^kBit become their sum and their difference.
template <int kBit>
TROUPE_INLINE __m256 butterfly_half(__m256 x) {
  constexpr int kUpper[] = {0xaa, 0xcc, 0xf0};
  const __m256 y = kBit == 0 ? _mm256_permute_ps(x, 0xb1) : kBit == 1 ? _mm256_permute_ps(x, 0x4e) : _mm256_permute2f128_ps(x, x, 1);
  return _mm256_blend_ps(_mm256_add_ps(x, y), _mm256_sub_ps(y, x), kUpper[kBit]);
}
template <int kBit>
TROUPE_INLINE Floats butterfly(Floats x) {
  if constexpr (kBit == 3)
    return {_mm256_add_ps(x.a, x.b), _mm256_sub_ps(x.a, x.b)};
  else
    return {butterfly_half<kBit>(x.a), butterfly_half<kBit>(x.b)};
}
TROUPE_INLINE void store_thirty_two(std::uint8_t* p, Ints x, Ints y) {
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, order));
}
/// 64 bytes of four vectors of values in [0, 255].
TROUPE_INLINE void store_unsigned_bytes(std::uint8_t* p, Ints x, Ints y, Ints z, Ints w) {
  store_thirty_two(p, x, y);
  store_thirty_two(p + 32, z, w);
}
TROUPE_INLINE void store_signed_bytes(std::int8_t* p, Ints x, Ints y, Ints z, Ints w) {
  store_signed_bytes(p, x);
  store_signed_bytes(p + 16, y);
  store_signed_bytes(p + 32, z);
  store_signed_bytes(p + 48, w);
}
/// p[4 i] = low byte of lane i; the bytes between stay as they are, another thread may write them.
TROUPE_INLINE void store_every_fourth(std::uint8_t* p, Ints x) {
  std::int32_t lane[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lane), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lane + 8), x.b);
  for (int i = 0; i < 16; ++i) p[4 * i] = static_cast<std::uint8_t>(lane[i]);
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
