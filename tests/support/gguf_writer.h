// GgufWriter: builds a GGUF file (version 3) in memory, for tests that need a model file, sound or broken. Writes what it is told:
// nothing is checked here, so that broken files can be made.
#pragma once
#include "kernels/backend.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

class GgufWriter {
 public:
  GgufWriter& unsigned_integer(std::string_view key, std::uint32_t value);
  GgufWriter& real(std::string_view key, float value);
  GgufWriter& boolean(std::string_view key, bool value);
  GgufWriter& text(std::string_view key, std::string_view value);
  GgufWriter& texts(std::string_view key, std::span<const std::string> values);
  GgufWriter& integers(std::string_view key, std::span<const std::int32_t> values);
  /// `shape` fastest first ({cols, rows}); values are quantized to `type`.
  GgufWriter& tensor(std::string_view name, std::vector<std::uint64_t> shape, kernels::StorageType type, std::span<const float> values);
  /// Any type number and any bytes.
  GgufWriter& raw_tensor(std::string_view name, std::vector<std::uint64_t> shape, std::uint32_t gguf_type, std::string bytes);

  /// Header, metadata and tensor table: what a file has before its padding and data.
  std::string head() const;
  std::string bytes() const;
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint32_t type;
    std::string bytes;
  };
  GgufWriter& entry(std::string_view key, std::uint32_t kind);

  std::string metadata_;
  std::uint64_t entries_ = 0;
  std::vector<Tensor> tensors_;
};

void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace troupe::test
