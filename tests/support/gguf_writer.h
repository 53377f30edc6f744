// GgufWriter: the one of the product, and tensors quantized from values; for tests that need a model file, sound or broken.
#pragma once
#include "kernels/backend.h"
#include "runtime/weights/gguf_writer.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace troupe::test {

class GgufWriter : public weights::GgufWriter {
 public:
  /// `shape` fastest first ({cols, rows}); values are quantized to `type`.
  GgufWriter& tensor(std::string_view name, std::vector<std::uint64_t> shape, kernels::StorageType type, std::span<const float> values);
  /// Throws where the file cannot be written.
  void write(const std::filesystem::path& path) const;
};

void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace troupe::test
