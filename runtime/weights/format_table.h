// Storage formats of GGUF tensors: one row each. A new format is a row here (and kernels that can pack it).
#pragma once
#include "kernels/backend.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::weights {

struct Format {
  std::string_view name;  // as in GGUF
  std::uint32_t gguf_type;
  kernels::StorageType type;
  std::size_t block_elements;
  std::size_t block_bytes;
  /// Exact values of `blocks` blocks, as fp32.
  void (*dequantize)(const std::byte* source, std::size_t blocks, float* out);
  /// Of whole blocks.
  std::size_t bytes_of(std::size_t elements) const { return elements / block_elements * block_bytes; }
};
std::span<const Format> formats();
const Format* find_format(std::uint32_t gguf_type);
const Format& format_of(kernels::StorageType type);
/// ggml's name of a type number, supported or not; "unknown" for a number without one. For error texts.
std::string_view gguf_type_name(std::uint32_t gguf_type);

}  // namespace troupe::weights
