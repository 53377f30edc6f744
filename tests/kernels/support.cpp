#include "tests/kernels/support.h"

#include <bit>
#include <cmath>

namespace troupe::kernels::testing {
namespace {

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), p, p + sizeof value);
}

struct Half {
  std::uint16_t bits;
  double value;
};
/// A half near `size`, either sign unless told; now and then a subnormal.
Half random_half(Random& random, float size, bool any_sign) {
  const unsigned mantissa = static_cast<unsigned>(random.below(1024));
  int exponent = static_cast<int>(std::floor(std::log2(size))) + static_cast<int>(random.below(3)) - 1;
  const bool tiny = random.below(64) == 0;
  const bool negative = any_sign && random.below(2) == 0;
  const double magnitude = tiny ? mantissa * 0x1p-24 : (1024 + mantissa) * std::ldexp(1.0, exponent - 10);
  const unsigned bits = tiny ? mantissa : static_cast<unsigned>(exponent + 15) << 10 | mantissa;
  return {static_cast<std::uint16_t>(bits | (negative ? 0x8000U : 0U)), negative ? -magnitude : magnitude};
}

void append_float(Random& random, StorageType type, FileMatrix& m) {
  if (type == StorageType::kF16) {
    const Half h = random_half(random, 0.5F, true);
    append(m.bytes, h.bits);
    m.values.push_back(static_cast<float>(h.value));
    return;
  }
  float x = random.normal();
  if (type == StorageType::kBF16) {
    const auto top = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
    x = std::bit_cast<float>(static_cast<std::uint32_t>(top) << 16);
    append(m.bytes, top);
  } else {
    append(m.bytes, x);
  }
  m.values.push_back(x);
}

void append_q8(Random& random, FileMatrix& m) {
  const Half d = random_half(random, 0.01F, false);
  append(m.bytes, d.bits);
  for (int k = 0; k < 32; ++k) {
    const int q = static_cast<int>(random.below(256)) - 128;
    append(m.bytes, static_cast<std::int8_t>(q));
    m.values.push_back(static_cast<float>(q * d.value));
  }
}

void append_q4(Random& random, bool has_minimum, FileMatrix& m) {
  const Half d = random_half(random, 0.02F, true), low = random_half(random, 0.2F, true);
  append(m.bytes, d.bits);
  if (has_minimum) append(m.bytes, low.bits);
  unsigned q[32];
  for (auto& x : q) x = static_cast<unsigned>(random.below(16));
  for (int k = 0; k < 16; ++k) append(m.bytes, static_cast<std::uint8_t>(q[k] | q[k + 16] << 4));
  for (const unsigned x : q) {
    const double value = has_minimum ? x * d.value + low.value : (static_cast<int>(x) - 8) * d.value;
    m.values.push_back(static_cast<float>(value + 0.0));  // no -0: a sum of scale and minimum has none
  }
}

/// As in ggml's dequantize_row_q6_K: two halves of 128, four runs of 32 each.
void append_q6(Random& random, FileMatrix& m) {
  std::uint8_t low[128], high[64];
  std::int8_t scales[16];
  for (auto& x : low) x = static_cast<std::uint8_t>(random.bits() >> 32);
  for (auto& x : high) x = static_cast<std::uint8_t>(random.bits() >> 32);
  for (auto& x : scales) x = static_cast<std::int8_t>(random.bits() >> 32);
  const Half d = random_half(random, 0.001F, true);
  const std::size_t base = m.values.size();
  m.values.resize(base + 256);
  for (std::size_t half = 0; half < 2; ++half)
    for (std::size_t l = 0; l < 32; ++l) {
      const std::uint8_t *ql = low + 64 * half, *qh = high + 32 * half;
      const int q[4] = {(ql[l] & 15) | (qh[l] & 3) << 4, (ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4, ql[l] >> 4 | (qh[l] >> 4 & 3) << 4,
                        ql[l + 32] >> 4 | (qh[l] >> 6 & 3) << 4};
      for (std::size_t run = 0; run < 4; ++run)
        m.values[base + 128 * half + 32 * run + l] = static_cast<float>(d.value * scales[8 * half + 2 * run + l / 16] * (q[run] - 32));
    }
  for (const auto x : low) append(m.bytes, x);
  for (const auto x : high) append(m.bytes, x);
  for (const auto x : scales) append(m.bytes, x);
  append(m.bytes, d.bits);
}

}  // namespace

std::uint64_t Random::bits() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 2685821657736338717ULL;
}

float Random::normal() {
  float sum = -6.0F;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

std::vector<float> normals(Random& random, std::size_t n, float size) {
  std::vector<float> x(n);
  for (auto& v : x) v = random.normal() * size;
  return x;
}

std::size_t block_of(StorageType type) {
  switch (type) {
    case StorageType::kF32:
    case StorageType::kF16:
    case StorageType::kBF16: return 1;
    case StorageType::kQ8_0:
    case StorageType::kQ4_0:
    case StorageType::kQ4_1: return 32;
    case StorageType::kQ6_K: return 256;
  }
  return 1;
}

FileMatrix random_matrix(Random& random, StorageType type, std::size_t rows, std::size_t cols) {
  FileMatrix m{type, rows, cols, {}, {}};
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols;) switch (type) {
        case StorageType::kF32:
        case StorageType::kF16:
        case StorageType::kBF16: append_float(random, type, m), c += 1; break;
        case StorageType::kQ8_0: append_q8(random, m), c += 32; break;
        case StorageType::kQ4_0: append_q4(random, false, m), c += 32; break;
        case StorageType::kQ4_1: append_q4(random, true, m), c += 32; break;
        case StorageType::kQ6_K: append_q6(random, m), c += 256; break;
      }
  return m;
}

bool is_sanitized() {
#ifdef TROUPE_SANITIZED
  return true;
#else
  return false;
#endif
}

std::unique_ptr<Backend> test_backend(const std::string& isa, std::size_t threads, Activations activations, WeightFormat weights) {
  CpuOptions options;
  options.threads = threads;
  options.pin = false;
  options.spin_us = 0;
  options.isa = isa;
  options.activations = activations;
  options.weights = weights;
  return make_cpu_backend(options);
}

}  // namespace troupe::kernels::testing
