// GuardedArray: an array whose neighbour bytes cannot be touched, so that a kernel that reads or writes past an end crashes. In a plain
// build it lies against an inaccessible page; under AddressSanitizer it is an allocation of its own, of exactly that size.
#pragma once
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace troupe::kernels::testing {

/// The end that is guarded to the byte; the other one is guarded to the page. (Under AddressSanitizer: both, to the byte.)
enum class Edge { kEnd, kBegin };

/// Raw bytes, filled with 0xff: NaN as floats, so that a value that nobody wrote shows in every result that it meets.
class GuardedBytes {
 public:
  GuardedBytes(std::size_t bytes, Edge edge);
  ~GuardedBytes();
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
};

/// `count` values; aligned to their type, and to 64 bytes if their size allows it.
template <typename T>
class GuardedArray {
 public:
  GuardedArray(std::size_t count, Edge edge) : bytes_(count * sizeof(T), edge), count_(count) {}
  GuardedArray(const std::vector<T>& values, Edge edge) : GuardedArray(values.size(), edge) { assign(values); }
  void assign(const std::vector<T>& values) const {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  T* data() const { return static_cast<T*>(bytes_.data()); }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data()[i]; }
  std::span<const T> view() const { return {data(), count_}; }

 private:
  GuardedBytes bytes_;
  std::size_t count_;
};

}  // namespace troupe::kernels::testing
