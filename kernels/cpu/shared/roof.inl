// Loops that do nothing but what limits a product: multiply-adds in registers, loads in order. For kernels/roof.h only.
// `sink`: 16 floats of operands, then room for 16 of a result, so that nothing is dropped. They return operations done.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kRoofChains = kProductVectors == 3 ? 12 : 5;  // enough to hide latency, few enough for the registers

constexpr bool kSharable = kProductVectors != 3;  // 256 bits: products may be several instructions, and the first the same for all chains

/// Hides what the compiler knows of a value, so that no product is shared by two sums or moved out of the loop.
template <typename T>
TROUPE_INLINE void opaque(T& x) {
#ifdef TROUPE_PLAIN
  asm volatile("" : "+m"(x));
#else
  asm volatile("" : "+v"(x));
#endif
}

/// The better of byte weights and nibbles: without VNNI the latter need fewer instructions.
double roof_bytes(long rounds, float* sink) {
  const UnsignedBytes w = load_unsigned(sink);
  SignedQuad x = signed_quad(four_bytes(sink));
  Ints c[kRoofChains];
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) c[i] = set_int(0);
  for (long round = 0; round < rounds; ++round) {
    opaque(x);
    TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) {
      if constexpr (kSharable) opaque(x);
      c[i] = dot_weights(c[i], w, x);
    }
  }
  Floats sum = zero();
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) sum = add(sum, to_floats(c[i]));
  store(sink + 16, sum);
  return 128.0 * kRoofChains * static_cast<double>(rounds);
}

double roof_nibbles(long rounds, float* sink) {
  const Nibbles w = low_nibbles(load_nibbles(sink));
  SignedQuad x = signed_quad(four_bytes(sink));
  NibbleSum c[kRoofChains];
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) c[i] = no_nibbles();
  for (long round = 0; round < rounds; ++round) {
    opaque(x);
    TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) {
      if constexpr (kSharable) opaque(x);
      c[i] = dot_nibbles(c[i], w, x);
    }
  }
  Floats sum = zero();
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) sum = add(sum, to_floats(nibble_total(c[i])));
  store(sink + 16, sum);
  return 128.0 * kRoofChains * static_cast<double>(rounds);
}

double roof_fp32(long rounds, float* sink) {
  const Floats x = load(sink);
  Floats c[kRoofChains];
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) c[i] = set(static_cast<float>(i));
  for (long round = 0; round < rounds; ++round) {
    TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) c[i] = fma(x, x, c[i]);
  }
  Floats sum = zero();
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) sum = add(sum, c[i]);
  store(sink + 16, sum);
  return 32.0 * kRoofChains * static_cast<double>(rounds);
}

#ifdef __AVX512BF16__
double roof_bf16(long rounds, float* sink) {
  __m512bh x;
  std::memcpy(&x, sink, sizeof x);
  __m512 c[kRoofChains];
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) c[i] = set(static_cast<float>(i));  // equal sums would be one sum
  for (long round = 0; round < rounds; ++round) {
    TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) c[i] = _mm512_dpbf16_ps(c[i], x, x);
  }
  __m512 sum = _mm512_setzero_ps();
  TROUPE_UNROLL for (int i = 0; i < kRoofChains; ++i) sum = _mm512_add_ps(sum, c[i]);
  std::memcpy(sink + 16, &sum, sizeof sum);
  return 64.0 * kRoofChains * static_cast<double>(rounds);
}
#else
constexpr double (*roof_bf16)(long, float*) = nullptr;
#endif

void roof_read(const std::uint8_t* from, std::size_t bytes, float* sink) {
  Floats sum[4] = {zero(), zero(), zero(), zero()};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256)
    TROUPE_UNROLL for (int j = 0; j < 4; ++j) sum[j] = max(sum[j], load(reinterpret_cast<const float*>(from + i) + 16 * j));
  store(sink + 16, max(max(sum[0], sum[1]), max(sum[2], sum[3])));
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
