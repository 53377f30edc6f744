// GgufWriter: puts a GGUF file (version 3) together: metadata first, then tensors; for models that tests and measurements make up.
// Writes what it is told: nothing is checked here, so that broken files can be made, too. Bytes of a tensor can be made when they are
// written, so that a large model is never whole in memory. Owned and used by one thread.
#pragma once
#include "messages/error.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::weights {

class GgufWriter {
 public:
  GgufWriter& unsigned_integer(std::string_view key, std::uint32_t value);
  GgufWriter& real(std::string_view key, float value);
  GgufWriter& boolean(std::string_view key, bool value);
  GgufWriter& text(std::string_view key, std::string_view value);
  GgufWriter& texts(std::string_view key, std::span<const std::string> values);
  GgufWriter& integers(std::string_view key, std::span<const std::int32_t> values);
  /// `shape` fastest first ({cols, rows}). Any type number and any bytes.
  GgufWriter& raw_tensor(std::string_view name, std::vector<std::uint64_t> shape, std::uint32_t gguf_type, std::string bytes);
  /// `make` gives the `size` bytes, each time the file is written.
  GgufWriter& made_tensor(std::string_view name, std::vector<std::uint64_t> shape, std::uint32_t gguf_type, std::uint64_t size,
                          std::function<std::string()> make);

  /// Header, metadata and tensor table: what a file has before its padding and data.
  std::string head() const;
  std::string bytes() const;
  /// Error: the file cannot be written.
  Status write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint32_t type;
    std::uint64_t size;
    std::function<std::string()> make;
  };
  GgufWriter& entry(std::string_view key, std::uint32_t kind);
  void stream_to(std::ostream& out) const;

  std::string metadata_;
  std::uint64_t entries_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace troupe::weights
