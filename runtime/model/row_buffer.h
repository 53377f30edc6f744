// RowBuffer: scratch rows that grow and never shrink. Owned by whoever runs kernels on them; that thread only.
// Invariant: rows start on a cache line and the floats behind a row's width are never read as numbers.
#pragma once
#include "kernels/backend.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace troupe::model {

class RowBuffer {
 public:
  explicit RowBuffer(std::size_t width = 0) { set_width(width); }
  /// Drops the contents.
  void set_width(std::size_t width) {
    width_ = width;
    stride_ = (width + kLine - 1) / kLine * kLine;
    // A stride of a power of two maps every row to the same few cache sets.
    if (stride_ % 1024 == 0) stride_ += kLine;
    capacity_ = 0;
    data_.reset();
  }
  std::size_t width() const { return width_; }
  /// `count` rows; contents are kept only while the capacity suffices.
  kernels::Rows rows(std::size_t count) {
    if (count > capacity_) {
      capacity_ = std::max(count, capacity_ * 2);
      data_.reset(static_cast<float*>(::operator new[](capacity_* stride_ * sizeof(float), kAlignment)));
      std::fill_n(data_.get(), capacity_ * stride_, 0.0F);
    }
    return {data_.get(), count, width_, stride_};
  }
  std::size_t bytes() const { return capacity_ * stride_ * sizeof(float); }

 private:
  static constexpr std::size_t kLine = 16;  // floats of 64 bytes
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, kAlignment); }
  };
  std::size_t width_ = 0, stride_ = 0, capacity_ = 0;
  std::unique_ptr<float[], Free> data_;
};

}  // namespace troupe::model
