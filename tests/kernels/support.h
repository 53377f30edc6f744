// Test data for kernels: reproducible random rows, matrices in a model file's block layouts with their exact values, levels.
// The encoders and exact values here are written apart from kernels/cpu/pack.cpp, so that the two check each other.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/kernel_lists.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace troupe::kernels::testing {

/// xorshift64*; the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435769U + 88172645463325252ULL) {}
  std::uint64_t bits();
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits() >> 11) % n; }
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }
  float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24F; }  // [0, 1)
  float normal();                                                          // about N(0, 1): sum of uniforms

 private:
  std::uint64_t state_;
};
std::vector<float> normals(Random& random, std::size_t n, float size = 1.0F);

/// A matrix as a model file holds it, and what its elements are worth: exactly, and rounded once to float.
struct FileMatrix {
  StorageType type = StorageType::kF32;
  std::size_t rows = 0, cols = 0;
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [rows][cols]
  MatrixSource source() const { return {type, bytes.data(), rows, cols}; }
};
FileMatrix random_matrix(Random& random, StorageType type, std::size_t rows, std::size_t cols);
inline constexpr auto& kAllTypes = kAllStorageTypes;
/// Inputs of one block of the file; a row is whole blocks.
std::size_t block_of(StorageType type);

/// True in builds with sanitizers, where tests try fewer shapes.
bool is_sanitized();

/// A backend for tests: no spinning, no pinning.
std::unique_ptr<Backend> test_backend(const std::string& isa, std::size_t threads, Activations activations = Activations::kInt8Group32,
                                      WeightFormat weights = WeightFormat::kFile);

/// fp32 rows that own their memory; the stride may be wider than the rows.
struct OwnedRows {
  std::vector<float> data;
  Rows rows;
  OwnedRows(std::size_t count, std::size_t width, std::size_t stride = 0)
      : data(count * (stride ? stride : width)), rows{data.data(), count, width, stride ? stride : width} {}
  OwnedRows(const OwnedRows& other) : data(other.data), rows(other.rows) { rows.data = data.data(); }
  OwnedRows& operator=(const OwnedRows&) = delete;
};

inline bool same_bits(const float* a, const float* b, std::size_t n) { return n == 0 || std::memcmp(a, b, n * sizeof(float)) == 0; }
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

}  // namespace troupe::kernels::testing
