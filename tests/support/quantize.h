// fp32 values into the block formats of a model file: plain round-to-nearest, for models that tests write. Not tuned for quality.
#pragma once
#include "kernels/backend.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe::test {

/// bfloat16, nearest even.
std::uint16_t float_to_bf16(float value);
/// `values.size()` must be whole blocks of the format. Returns the bytes as they lie in the file.
std::string quantize(kernels::StorageType type, std::span<const float> values);

}  // namespace troupe::test
