// Block layouts: ggml's ggml-common.h (block_q4_0, block_q4_1, block_q8_0, block_q6_K); values: its dequantize_row_* functions.
#include "runtime/weights/format_table.h"

#include "messages/error.h"
#include "runtime/weights/half.h"

#include <array>
#include <cstring>

namespace troupe::weights {
namespace {
using kernels::StorageType;

template <class T>
T load(const std::byte* at) {  // blocks need not be aligned for T
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
float load_half(const std::byte* at) { return half_to_float(load<std::uint16_t>(at)); }

void dequantize_f32(const std::byte* source, std::size_t blocks, float* out) { std::memcpy(out, source, blocks * sizeof(float)); }

void dequantize_f16(const std::byte* source, std::size_t blocks, float* out) {
  for (std::size_t i = 0; i < blocks; ++i) out[i] = load_half(source + 2 * i);
}

void dequantize_bf16(const std::byte* source, std::size_t blocks, float* out) {
  for (std::size_t i = 0; i < blocks; ++i) out[i] = bf16_to_float(load<std::uint16_t>(source + 2 * i));
}

/// fp16 scale, then 32 signed bytes.
void dequantize_q8_0(const std::byte* source, std::size_t blocks, float* out) {
  for (std::size_t b = 0; b < blocks; ++b, source += 34, out += 32) {
    const float scale = load_half(source);
    for (std::size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(load<std::int8_t>(source + 2 + i));
  }
}

/// fp16 scale, then 16 bytes: element i in the low nibble of byte i, element i + 16 in the high one; values offset by 8.
void dequantize_q4_0(const std::byte* source, std::size_t blocks, float* out) {
  for (std::size_t b = 0; b < blocks; ++b, source += 18, out += 32) {
    const float scale = load_half(source);
    for (std::size_t i = 0; i < 16; ++i) {
      const auto pair = std::to_integer<int>(source[2 + i]);
      out[i] = scale * static_cast<float>((pair & 15) - 8);
      out[i + 16] = scale * static_cast<float>((pair >> 4) - 8);
    }
  }
}

/// fp16 scale, fp16 minimum, then nibbles as in Q4_0 without the offset.
void dequantize_q4_1(const std::byte* source, std::size_t blocks, float* out) {
  for (std::size_t b = 0; b < blocks; ++b, source += 20, out += 32) {
    const float scale = load_half(source), minimum = load_half(source + 2);
    for (std::size_t i = 0; i < 16; ++i) {
      const auto pair = std::to_integer<int>(source[4 + i]);
      out[i] = scale * static_cast<float>(pair & 15) + minimum;
      out[i + 16] = scale * static_cast<float>(pair >> 4) + minimum;
    }
  }
}

/// 256 elements: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales (one for 16 elements), fp16 scale of scales.
/// Each half of 128 elements holds four runs of 32 whose low nibbles and bit pairs are interleaved.
void dequantize_q6_k(const std::byte* source, std::size_t blocks, float* out) {
  for (std::size_t b = 0; b < blocks; ++b, source += 210, out += 256) {
    const float super_scale = load_half(source + 208);
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* low = source + 64 * half;
      const std::byte* high = source + 128 + 32 * half;
      const std::byte* scales = source + 192 + 8 * half;
      for (std::size_t i = 0; i < 128; ++i) {
        const std::size_t run = i / 32, lane = i % 32;
        const auto nibbles = std::to_integer<int>(low[lane + (run % 2) * 32]);
        const int nibble = run < 2 ? nibbles & 15 : nibbles >> 4;
        const int pair = (std::to_integer<int>(high[lane]) >> (2 * run)) & 3;
        const auto scale = static_cast<float>(load<std::int8_t>(scales + 2 * run + lane / 16));
        out[128 * half + i] = super_scale * scale * static_cast<float>((nibble | pair << 4) - 32);
      }
    }
  }
}

constexpr std::array kFormats{
    Format{"F32", 0, StorageType::kF32, 1, 4, dequantize_f32},      Format{"F16", 1, StorageType::kF16, 1, 2, dequantize_f16},
    Format{"Q4_0", 2, StorageType::kQ4_0, 32, 18, dequantize_q4_0}, Format{"Q4_1", 3, StorageType::kQ4_1, 32, 20, dequantize_q4_1},
    Format{"Q8_0", 8, StorageType::kQ8_0, 32, 34, dequantize_q8_0}, Format{"Q6_K", 14, StorageType::kQ6_K, 256, 210, dequantize_q6_k},
    Format{"BF16", 30, StorageType::kBF16, 1, 2, dequantize_bf16},
};

/// By type number, as in ggml.h; empty: retired or never used.
constexpr std::array<std::string_view, 40> kTypeNames{
    "F32",  "F16",   "Q4_0",    "Q4_1",   "",        "",      "Q5_0",   "Q5_1",  "Q8_0",  "Q8_1",   "Q2_K", "Q3_K", "Q4_K", "Q5_K",
    "Q6_K", "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",  "I32",  "I64",
    "F64",  "IQ1_M", "BF16",    "",       "",        "",      "TQ1_0",  "TQ2_0", "",      "",       "",     "MXFP4"};

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* find_format(std::uint32_t gguf_type) {
  for (const Format& format : kFormats)
    if (format.gguf_type == gguf_type) return &format;
  return nullptr;
}

const Format& format_of(kernels::StorageType type) {
  for (const Format& format : kFormats)
    if (format.type == type) return format;
  throw InvariantViolation("a storage type without a row in the format table");
}

std::string_view gguf_type_name(std::uint32_t gguf_type) {
  const std::string_view name = gguf_type < kTypeNames.size() ? kTypeNames[gguf_type] : std::string_view();
  return name.empty() ? "unknown" : name;
}

}  // namespace troupe::weights
