// GgufFile: a model file, every offset and size checked against the file before use. Immutable after open; any thread.
// The file is untrusted: a bad one is an Error that names file, field and offset. Its head (metadata and tensor table) is kept in memory,
// tensors are read when asked for and never mapped: so a file that is cut or replaced meanwhile is an Error, too, and no SIGBUS.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/disk_file.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::weights {

struct Tensor {
  std::string name;
  kernels::StorageType type = kernels::StorageType::kF32;
  std::vector<std::uint64_t> shape;  // GGUF order: fastest first, so {cols, rows}
  std::uint64_t offset = 0;          // of the data in the file
  std::size_t bytes = 0;
  std::size_t rows() const { return shape.size() > 1 ? shape[1] : 1; }
  std::size_t cols() const { return shape.empty() ? 0 : shape[0]; }
};

class GgufFile {
 public:
  static Result<std::shared_ptr<const GgufFile>> open(const std::filesystem::path& path);
  ~GgufFile();
  const std::filesystem::path& path() const;
  std::size_t size_bytes() const;

  // Metadata. Absent or of another kind: nullopt.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::uint64_t> unsigned_integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;

  const Tensor* find(std::string_view name) const;  // nullptr = absent
  const std::vector<Tensor>& tensors() const;
  /// Bytes of `tensor` from `offset` on, to.size() of them. False: outside of it, or the file cannot be read any more.
  bool read(const Tensor& tensor, std::size_t offset, std::span<std::byte> to) const;
  /// A source that reads from this file; it must outlive the source.
  kernels::MatrixSource matrix(const Tensor& tensor) const;
  const DiskFile& disk_file() const;
  /// An Error{bad_model_file} about this file: "<file>: <field>: <what>".
  Error bad(std::string_view field, std::string what) const;

 private:
  class State;
  explicit GgufFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Fields of tokenizer.ggml.*; a missing or inconsistent one is an Error.
Result<text::Vocabulary> read_vocabulary(const GgufFile& file);

}  // namespace troupe::weights
