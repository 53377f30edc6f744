// WeightLoader: finds an architecture's weights in the file, checks their shapes, cuts this rank's part, packs them with the backend (or
// takes them packed from the cache) and counts progress. The architecture asks for all twice: at first the loader only looks and adds up,
// so that what is wrong is known before anything large is read. Lives for one load, on the loading thread. The file is untrusted: all
// failures are Errors.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"
#include "runtime/model/model.h"
#include "runtime/weights/gguf_file.h"
#include "runtime/weights/pack_cache.h"

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::model {

/// How a matrix is divided over the ranks of a tensor-parallel group.
enum class Slicing : std::uint8_t {
  kWhole,    // every rank has all of it
  kOutputs,  // a range of outputs (column parallel)
  kInputs,   // a range of inputs (row parallel): its product is an addend
};

/// A matrix an architecture wants: its tensor, its shape and this rank's part.
struct WantedMatrix {
  std::string name;
  std::size_t rows = 0;  // outputs of the whole matrix
  std::size_t cols = 0;  // inputs of the whole matrix
  Slicing slicing = Slicing::kWhole;
  Range part = {};  // of the outputs or inputs
};
/// The same for a vector.
struct WantedVector {
  std::string name;
  std::size_t length = 0;
  std::optional<Range> part = {};
};

class WeightLoader {
 public:
  /// `cache` may be nullptr.
  WeightLoader(const weights::GgufFile& file, kernels::Backend& backend, weights::PackCache* cache, LoadProgress progress);
  /// From now on the weights are read; before, and after the first error, what comes back is void.
  void begin_reading() { reading_ = true; }
  /// Stacked along the outputs to one product.
  std::unique_ptr<kernels::Weight> matrix(std::initializer_list<WantedMatrix> wanted);
  std::unique_ptr<kernels::Weight> matrix(const WantedMatrix& wanted) { return matrix({wanted}); }
  /// A vector as fp32, padded with zeros to a multiple of 16.
  std::vector<float> vector(const WantedVector& wanted);
  /// Biases of stacked products, one behind the other and padded at the end, zeros where the file lacks one; empty where it lacks all.
  std::vector<float> bias(std::initializer_list<WantedVector> wanted);
  /// An error unless the file lacks this tensor: it would change results and is not understood here.
  void refuse(const std::string& name, std::string why);
  const std::optional<Error>& error() const { return error_; }

 private:
  const weights::Tensor* find(const std::string& name, std::size_t rows, std::size_t cols);
  std::optional<kernels::MatrixSource> source(const WantedMatrix& wanted);
  std::vector<float> read(const WantedVector& wanted);
  void done(std::size_t bytes);
  void lost(const std::string& name);

  const weights::GgufFile& file_;
  kernels::Backend& backend_;
  weights::PackCache* cache_;
  LoadProgress progress_;
  bool reading_ = false;
  std::size_t done_ = 0, total_ = 0;
  std::optional<Error> error_;
};

}  // namespace troupe::model
