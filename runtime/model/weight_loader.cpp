#include "runtime/model/weight_loader.h"

#include "runtime/model/config_reader.h"
#include "runtime/weights/format_table.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::model {

WeightLoader::WeightLoader(const weights::GgufFile& file, kernels::Backend& backend, weights::PackCache* cache, LoadProgress progress)
    : file_(file), backend_(backend), cache_(cache), progress_(std::move(progress)) {
  for (const weights::Tensor& tensor : file.tensors()) total_ += tensor.bytes;
}

const weights::Tensor* WeightLoader::find(const std::string& name, std::size_t rows, std::size_t cols) {
  if (error_) return nullptr;
  const weights::Tensor* tensor = file_.find(name);
  if (tensor == nullptr) {
    error_ = file_.bad("tensor " + name, "missing");
    return nullptr;
  }
  if (tensor->shape.size() > 2 || tensor->rows() != rows || tensor->cols() != cols) {
    std::string shape;
    for (const std::uint64_t n : tensor->shape) shape += (shape.empty() ? "" : " x ") + std::to_string(n);
    error_ = file_.bad("tensor " + name, "shape is " + shape + ", the configuration asks for " + std::to_string(cols) +
                                             (rows > 1 ? " x " + std::to_string(rows) : ""));
    return nullptr;
  }
  return tensor;
}

std::unique_ptr<kernels::Weight> WeightLoader::matrix(std::span<const WantedMatrix> wanted) {
  std::vector<kernels::MatrixSource> sources;
  std::size_t bytes = 0;
  std::string name;  // of the product, in the cache
  for (const WantedMatrix& want : wanted) {
    const weights::Tensor* tensor = find(want.name, want.rows, want.cols);
    if (tensor == nullptr) return nullptr;
    sources.push_back(file_.matrix(*tensor));
    bytes += tensor->bytes;
    name += (name.empty() ? "" : "+") + want.name;
  }
  std::unique_ptr<kernels::Weight> packed;
  try {
    if (cache_ != nullptr) packed = cache_->take(backend_, name, sources);
    if (packed == nullptr) {
      packed = backend_.pack(sources);
      if (packed == nullptr) {
        lost(wanted.front().name);
        return nullptr;
      }
      if (cache_ != nullptr) cache_->note_packed(name, *packed);
    }
  } catch (const std::invalid_argument& refused) {  // a format or shape that no kernel takes
    error_ = unsupported(file_, "tensor " + wanted.front().name, refused.what());
    return nullptr;
  }
  done(bytes);
  return packed;
}

void WeightLoader::lost(const std::string& name) {
  error_ = file_.disk_file().unreadable("tensor " + name + ": the file was cut or replaced while it was read");
}

std::vector<float> WeightLoader::vector(const std::string& name, std::size_t length) {
  const weights::Tensor* tensor = find(name, 1, length);
  if (tensor == nullptr) return {};
  const weights::Format& format = weights::format_of(tensor->type);
  // Block formats are stored in whole blocks; the file reader has checked that the blocks fill `bytes`.
  const std::size_t blocks = tensor->bytes / format.block_bytes;
  std::vector<float> values(std::max((length + 15) / 16 * 16, blocks * format.block_elements), 0.0F);
  std::vector<std::byte> stored(tensor->bytes);
  if (!file_.read(*tensor, 0, stored)) {
    lost(name);
    return {};
  }
  format.dequantize(stored.data(), blocks, values.data());
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
    error_ = file_.bad("tensor " + name, "holds a value that is not finite");
    return {};
  }
  done(tensor->bytes);
  return values;
}

void WeightLoader::refuse(const std::string& name, std::string why) {
  if (!error_ && file_.find(name) != nullptr) error_ = unsupported(file_, "tensor " + name, std::move(why));
}

void WeightLoader::done(std::size_t bytes) {
  done_ += bytes;
  if (progress_) progress_(std::min(done_, total_), total_);
}

}  // namespace troupe::model
