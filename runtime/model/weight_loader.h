// WeightLoader: finds an architecture's weights in the file, checks their shapes, cuts this rank's part, packs them with the backend (or
// takes them packed from the cache) and counts progress. Lives for one load, on the loading thread. The file is untrusted: all failures
// are Errors.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"
#include "runtime/model/model.h"
#include "runtime/weights/gguf_file.h"
#include "runtime/weights/pack_cache.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::model {

/// How a matrix is divided over the ranks of a tensor-parallel group.
enum class Slicing : std::uint8_t {
  kWhole,    // every rank has all of it
  kOutputs,  // a range of outputs (column parallel)
  kInputs,   // a range of inputs (row parallel): its product is an addend
  kHeads,    // outputs by whole heads
};

/// A matrix an architecture wants: its tensor, its shape and how it is cut.
struct WantedMatrix {
  std::string name;
  std::size_t rows = 0;  // outputs of the whole matrix
  std::size_t cols = 0;  // inputs of the whole matrix
  Slicing slicing = Slicing::kWhole;
  std::size_t head_dim = 0;  // for kHeads
};

class WeightLoader {
 public:
  /// `cache` may be nullptr.
  WeightLoader(const weights::GgufFile& file, kernels::Backend& backend, weights::PackCache* cache, LoadProgress progress);
  /// Stacked along the outputs to one product. After the first error: nullptr.
  std::unique_ptr<kernels::Weight> matrix(std::span<const WantedMatrix> wanted);
  std::unique_ptr<kernels::Weight> matrix(const WantedMatrix& wanted) { return matrix(std::span(&wanted, 1)); }
  /// A vector as fp32, padded with zeros to a multiple of 16.
  std::vector<float> vector(const std::string& name, std::size_t length);
  /// An error unless the file lacks this tensor: it would change results and is not understood here.
  void refuse(const std::string& name, std::string why);
  const std::optional<Error>& error() const { return error_; }

 private:
  const weights::Tensor* find(const std::string& name, std::size_t rows, std::size_t cols);
  void done(std::size_t bytes);
  void lost(const std::string& name);

  const weights::GgufFile& file_;
  kernels::Backend& backend_;
  weights::PackCache* cache_;
  LoadProgress progress_;
  std::size_t done_ = 0, total_ = 0;
  std::optional<Error> error_;
};

}  // namespace troupe::model
