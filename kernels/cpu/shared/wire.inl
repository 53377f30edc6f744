// Rows as they travel between ranks (README.md, on the wire). Scales lie in front, one a group; then the values, then zeros up to four
// bytes. Maxima are exact, so a group's scale and values do not depend on the level; a decoded value is rounded once, a sum at each
// addition.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kWireRun = 1024;  // values whose scales are found before any of them is rounded: else each group would wait for its own
constexpr std::size_t wire_bytes(std::size_t values, std::size_t bits) { return (values * bits + 7) / 8; }
TROUPE_INLINE int wire_groups(int n, int size) { return (n + size - 1) / size; }

void pad_wire_row(std::uint8_t* to, std::size_t bytes) {
  for (; bytes % 4 != 0; ++bytes) to[bytes] = 0;
}

TROUPE_INLINE bool all_finite(Floats magnitudes) { return mask_bits(greater(set(__builtin_inff()), magnitudes)) == 0xffffU; }

/// Scales of kCount groups (4 or 1) of n values together, and what their values are multiplied with. A group that is not finite has NaN for
/// a scale; returns false if there is one.
template <int kSize, int kLevels, int kCount>
TROUPE_INLINE bool wire_scales(const float* x, int n, float* scales, float* factors) {
  Floats size[4] = {zero(), zero(), zero(), zero()};
  if constexpr (kCount == 1) {
    for (int i = 0; i < n; i += 16) size[0] = larger_magnitude(size[0], load(x + i, n - i));
  } else {
    TROUPE_UNROLL for (int j = 0; j < kCount; ++j) TROUPE_UNROLL for (int i = 0; i < kSize; i += 16) size[j] =
        larger_magnitude(size[j], load(x + j * kSize + i));
  }
  float four[4];
  maxima_of_four(size[0], size[1], size[2], size[3], four);
  Four amax;
  std::memcpy(&amax, four, sizeof amax);
  const Four scale = amax / static_cast<float>(kLevels), quotient = static_cast<float>(kLevels) / amax;
  const Four factor = amax > 0x1p-100F ? quotient : Four{};
  std::memcpy(scales, &scale, kCount * sizeof(float));
  std::memcpy(factors, &factor, kCount * sizeof(float));
  if (all_finite(larger_magnitude(larger_magnitude(size[0], size[1]), larger_magnitude(size[2], size[3])))) return true;
  for (int j = 0; j < kCount; ++j)
    if (!all_finite(size[j])) scales[j] = __builtin_nanf("");
  return false;
}

/// Scales and values of up to kWireRun values that begin with a group.
template <int kSize, int kLevels>
TROUPE_INLINE void quantize_run(const float* x, int n, float* scales, std::int8_t* q) {
  const int groups = wire_groups(n, kSize);
  float factors[kWireRun / kSize];
  bool finite = true;
  int g = 0;
  for (; (g + 4) * kSize <= n; g += 4) finite &= wire_scales<kSize, kLevels, 4>(x + g * kSize, 4 * kSize, scales + g, factors + g);
  for (; g < groups; ++g) {
    const int left = n - g * kSize;
    finite &= wire_scales<kSize, kLevels, 1>(x + g * kSize, left < kSize ? left : kSize, scales + g, factors + g);
  }
  const auto values = [&](int i, int lanes) { return to_ints(mul(load(x + i, lanes), set(factors[i / kSize]))); };
  int i = 0;
  for (; i + 64 <= n; i += 64) store_signed_bytes(q + i, values(i, 16), values(i + 16, 16), values(i + 32, 16), values(i + 48, 16));
  for (; i + 16 <= n; i += 16) store_signed_bytes(q + i, values(i, 16));
  if (i < n) {
    std::int8_t last[16];
    store_signed_bytes(last, values(i, n - i));
    std::memcpy(q + i, last, static_cast<std::size_t>(n - i));
  }
  if (finite) return;
  for (g = 0; g < groups; ++g)
    if (scales[g] != scales[g]) std::memset(q + g * kSize, 0, static_cast<std::size_t>(n - g * kSize < kSize ? n - g * kSize : kSize));
}

/// n values of kBits bits, the first lowest; stored with `2^(kBits - 1)` added, so that they are not negative.
template <int kBits>
void pack_wire_values(const std::int8_t* q, int n, std::uint8_t* to) {
  constexpr int kTogether = kBits == 4 ? 2 : 4;  // values that fill whole bytes
  for (int i = 0; i < n; i += kTogether) {
    const int count = n - i < kTogether ? n - i : kTogether;
    std::uint32_t bits = 0;
    for (int j = 0; j < count; ++j) bits |= static_cast<std::uint32_t>(q[i + j] + (1 << (kBits - 1))) << (kBits * j);
    std::memcpy(to + i * kBits / 8, &bits, wire_bytes(static_cast<std::size_t>(count), kBits));
  }
}
// Not inlined: g++ 12 vectorizes two of them together, wrongly.
template <int kBits>
TROUPE_NOINLINE void unpack_wire_values(const std::uint8_t* from, int n, std::int8_t* q) {
  constexpr int kTogether = kBits == 4 ? 2 : 4, kBytes = kTogether * kBits / 8;
  for (int i = 0; i < n; i += kTogether, from += kBytes) {
    const int count = n - i < kTogether ? n - i : kTogether, bytes = (count * kBits + 7) / 8;
    std::uint32_t bits = 0;
    for (int b = 0; b < bytes; ++b) bits |= static_cast<std::uint32_t>(from[b]) << (8 * b);
    for (int j = 0; j < count; ++j)
      q[i + j] = static_cast<std::int8_t>(static_cast<int>(bits >> (kBits * j) & ((1U << kBits) - 1)) - (1 << (kBits - 1)));
  }
}

template <int kSize, int kBits>
void encode_groups(const float* x, int n, std::uint8_t* to) {
  constexpr int kLevels = (1 << (kBits - 1)) - 1;
  std::uint8_t* values = to + 4 * wire_groups(n, kSize);
  for (int i = 0; i < n; i += kWireRun) {
    const int run = n - i < kWireRun ? n - i : kWireRun;
    float scales[kWireRun / kSize];
    if constexpr (kBits == 8) {
      quantize_run<kSize, kLevels>(x + i, run, scales, reinterpret_cast<std::int8_t*>(values + i));
    } else {
      std::int8_t q[kWireRun];
      quantize_run<kSize, kLevels>(x + i, run, scales, q);
      pack_wire_values<kBits>(q, run, values + i * kBits / 8);
    }
    std::memcpy(to + 4 * (i / kSize), scales, 4 * static_cast<std::size_t>(wire_groups(run, kSize)));
  }
  pad_wire_row(to, static_cast<std::size_t>(values - to) + wire_bytes(static_cast<std::size_t>(n), kBits));
}

void encode_bfloats(const float* x, int n, std::uint8_t* to) {
  int i = 0;
  for (; i + 16 <= n; i += 16) store_bfloat(reinterpret_cast<std::uint16_t*>(to) + i, load(x + i));
  if (i < n) {
    std::uint16_t last[16];
    store_bfloat(last, load(x + i, n - i));
    std::memcpy(to + 2 * i, last, 2 * static_cast<std::size_t>(n - i));
  }
  pad_wire_row(to, 2 * static_cast<std::size_t>(n));
}

void encode_floats(const float* x, int n, std::uint8_t* to) { std::memcpy(to, x, 4 * static_cast<std::size_t>(n)); }

// What a format's values [i, i + lanes) are worth; i is a multiple of 16, `groups` those of the row.
struct WireFloats {
  static TROUPE_MEMBER int groups(int) { return 0; }
  static TROUPE_MEMBER Floats decode(const std::uint8_t* row, int, int i) { return load(reinterpret_cast<const float*>(row) + i); }
  static TROUPE_MEMBER Floats decode(const std::uint8_t* row, int, int i, int lanes) {
    return load(reinterpret_cast<const float*>(row) + i, lanes);
  }
};
struct WireBfloats {
  static TROUPE_MEMBER int groups(int) { return 0; }
  static TROUPE_MEMBER Floats decode(const std::uint8_t* row, int, int i) {
    return load_bfloat(reinterpret_cast<const std::uint16_t*>(row) + i);
  }
  static TROUPE_MEMBER Floats decode(const std::uint8_t* row, int, int i, int lanes) {
    std::uint16_t last[16] = {};
    std::memcpy(last, row + 2 * i, 2 * static_cast<std::size_t>(lanes));
    return load_bfloat(last);
  }
};
template <int kSize, int kBits>
struct WireGroups {
  static TROUPE_MEMBER int groups(int n) { return wire_groups(n, kSize); }
  static TROUPE_MEMBER Floats scaled(const std::uint8_t* row, int i, const std::int8_t* q) {
    return mul(to_floats(load_ints(q)), set(reinterpret_cast<const float*>(row)[i / kSize]));
  }
  static TROUPE_MEMBER Floats decode(const std::uint8_t* row, int groups, int i) {
    const std::uint8_t* values = row + 4 * groups + i * kBits / 8;
    if constexpr (kBits == 8) return scaled(row, i, reinterpret_cast<const std::int8_t*>(values));
    std::int8_t q[16];
    unpack_wire_values<kBits>(values, 16, q);
    return scaled(row, i, q);
  }
  static TROUPE_MEMBER Floats decode(const std::uint8_t* row, int groups, int i, int lanes) {
    const std::uint8_t* values = row + 4 * groups + i * kBits / 8;
    std::int8_t q[16] = {};
    if constexpr (kBits == 8)
      std::memcpy(q, values, static_cast<std::size_t>(lanes));
    else
      unpack_wire_values<kBits>(values, lanes, q);
    return scaled(row, i, q);
  }
};

/// kCount: how many parts; 0: any number.
template <class Format, int kCount>
void decode_sum_of(const std::uint8_t* const* parts, int any_count, std::size_t offset, int n, float* y, bool add_to) {
  const int count = kCount ? kCount : any_count, groups = Format::groups(n);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    Floats sum = Format::decode(parts[0] + offset, groups, i);
    TROUPE_UNROLL for (int p = 1; p < count; ++p) sum = add(sum, Format::decode(parts[p] + offset, groups, i));
    store(y + i, add_to ? add(load(y + i), sum) : sum);
  }
  if (i == n) return;
  const int lanes = n - i;
  Floats sum = Format::decode(parts[0] + offset, groups, i, lanes);
  for (int p = 1; p < count; ++p) sum = add(sum, Format::decode(parts[p] + offset, groups, i, lanes));
  store(y + i, add_to ? add(load(y + i, lanes), sum) : sum, lanes);
}
template <class Format>
void decode_sum(const std::uint8_t* const* parts, int count, std::size_t offset, int n, float* y, bool add_to) {
  switch (count) {
    case 1: return decode_sum_of<Format, 1>(parts, 1, offset, n, y, add_to);
    case 2: return decode_sum_of<Format, 2>(parts, 2, offset, n, y, add_to);
    default: return decode_sum_of<Format, 0>(parts, count, offset, n, y, add_to);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
