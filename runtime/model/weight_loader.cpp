#include "runtime/model/weight_loader.h"

#include "runtime/model/config_reader.h"
#include "runtime/weights/format_table.h"
#include "runtime/weights/matrix_slice.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::model {
namespace {

bool is_whole(const WantedMatrix& wanted) {
  const std::size_t all = wanted.slicing == Slicing::kInputs ? wanted.cols : wanted.rows;
  return wanted.slicing == Slicing::kWhole || wanted.part == Range{0, all};
}

/// Tells parts of one matrix apart; empty for the whole.
std::string cut_name(const WantedMatrix& wanted) {
  if (is_whole(wanted)) return {};
  const std::string range = std::to_string(wanted.part.first) + ":" + std::to_string(wanted.part.end());
  return wanted.slicing == Slicing::kInputs ? "[:," + range + "]" : "[" + range + "]";
}

std::vector<float> padded(std::vector<float> values) {
  values.resize((values.size() + 15) / 16 * 16, 0.0F);
  return values;
}

}  // namespace

WeightLoader::WeightLoader(const weights::GgufFile& file, kernels::Backend& backend, weights::PackCache* cache, LoadProgress progress)
    : file_(file), backend_(backend), cache_(cache), progress_(std::move(progress)) {}

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

/// This rank's part of a matrix; nothing, and an error, where the file lacks it.
std::optional<kernels::MatrixSource> WeightLoader::source(const WantedMatrix& wanted) {
  const weights::Tensor* tensor = find(wanted.name, wanted.rows, wanted.cols);
  if (tensor == nullptr) return std::nullopt;
  kernels::MatrixSource whole = file_.matrix(*tensor);
  if (is_whole(wanted)) return whole;
  return wanted.slicing == Slicing::kInputs ? weights::slice_inputs(std::move(whole), wanted.part.first, wanted.part.count)
                                            : weights::slice_outputs(std::move(whole), wanted.part.first, wanted.part.count);
}

std::unique_ptr<kernels::Weight> WeightLoader::matrix(std::initializer_list<WantedMatrix> wanted) {
  std::vector<kernels::MatrixSource> sources;
  std::size_t bytes = 0;
  std::string name;  // of the product, in the cache
  for (const WantedMatrix& want : wanted) {
    auto part = source(want);
    if (!part) return nullptr;
    bytes += weights::format_of(part->type).bytes_of(part->rows * part->cols);
    name += (name.empty() ? "" : "+") + want.name + cut_name(want);
    sources.push_back(std::move(*part));
  }
  if (!reading_) {
    total_ += bytes;
    return nullptr;
  }
  const std::string& first = wanted.begin()->name;
  std::unique_ptr<kernels::Weight> packed;
  try {
    if (cache_ != nullptr) packed = cache_->take(backend_, name, sources);
    if (packed == nullptr) {
      packed = backend_.pack(sources);
      if (packed == nullptr) {
        lost(first);
        return nullptr;
      }
      if (cache_ != nullptr) cache_->note_packed(name, *packed);
    }
  } catch (const std::invalid_argument& refused) {  // a format or shape that no kernel takes
    error_ = unsupported(file_, "tensor " + first, refused.what());
    return nullptr;
  }
  done(bytes);
  return packed;
}

void WeightLoader::lost(const std::string& name) {
  error_ = file_.disk_file().unreadable("tensor " + name + ": the file was cut or replaced while it was read");
}

std::vector<float> WeightLoader::read(const WantedVector& wanted) {
  const weights::Tensor* tensor = find(wanted.name, 1, wanted.length);
  if (tensor == nullptr) return {};
  if (!reading_) {
    total_ += tensor->bytes;
    return {};
  }
  const weights::Format& format = weights::format_of(tensor->type);
  // Block formats are stored in whole blocks; the file reader has checked that the blocks fill `bytes`.
  const std::size_t blocks = tensor->bytes / format.block_bytes;
  std::vector<float> values(blocks * format.block_elements);
  std::vector<std::byte> stored(tensor->bytes);
  if (!file_.read(*tensor, 0, stored)) {
    lost(wanted.name);
    return {};
  }
  format.dequantize(stored.data(), blocks, values.data());
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
    error_ = file_.bad("tensor " + wanted.name, "holds a value that is not finite");
    return {};
  }
  done(tensor->bytes);
  const Range part = wanted.part.value_or(Range{0, wanted.length});
  return {values.begin() + static_cast<std::ptrdiff_t>(part.first), values.begin() + static_cast<std::ptrdiff_t>(part.end())};
}

std::vector<float> WeightLoader::vector(const WantedVector& wanted) { return padded(read(wanted)); }

std::vector<float> WeightLoader::bias(std::initializer_list<WantedVector> wanted) {
  const auto has = [this](const WantedVector& want) { return file_.find(want.name) != nullptr; };
  if (std::none_of(wanted.begin(), wanted.end(), has)) return {};
  std::vector<float> stacked;
  for (const WantedVector& want : wanted) {
    std::vector<float> values = has(want) ? read(want) : std::vector<float>{};
    values.resize(want.part ? want.part->count : want.length);
    stacked.insert(stacked.end(), values.begin(), values.end());
  }
  return padded(std::move(stacked));
}

void WeightLoader::refuse(const std::string& name, std::string why) {
  if (!error_ && file_.find(name) != nullptr) error_ = unsupported(file_, "tensor " + name, std::move(why));
}

void WeightLoader::done(std::size_t bytes) {
  done_ += bytes;
  if (progress_) progress_(std::min(done_, total_), total_);
}

}  // namespace troupe::model
