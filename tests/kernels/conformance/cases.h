// The conformance cases: every entry of the kernel tables, called directly on odd shapes in guarded memory. A case runs on one level
// and records what the kernels wrote; conformance_test.cpp compares the records of all levels with those of the scalar reference, and
// kernel_hash.cpp prints them as hashes, so that builds by two compilers can be compared. Cases know no level: a new row of a list, a new
// level, storage type, activation scheme or KV format is covered as it is (a new entry of a table needs a case: table_is_covered()).
#pragma once
#include "kernels/cpu/kernel_lists.h"
#include "tests/kernels/conformance/guarded.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::kernels::testing {

/// What a case has written, piece by piece, and rules that it saw broken on its own level.
class Record {
 public:
  template <typename T>
  void add(const std::string& piece, const T* values, std::size_t count) {
    add_bytes(piece, values, count * sizeof(T));
  }
  template <typename T>
  void add(const std::string& piece, const GuardedArray<T>& values) {
    add_bytes(piece, values.data(), values.size() * sizeof(T));
  }
  /// Notes `rule` as broken unless it holds.
  void expect(bool holds, const std::string& rule) {
    if (!holds && broken_.size() < 20) broken_.push_back(rule);
  }

  const std::vector<std::string>& broken() const { return broken_; }
  std::size_t bytes() const { return bytes_.size(); }
  /// FNV-1a over all pieces.
  std::uint64_t hash() const;
  /// Where two records of the same case first differ; empty if they do not.
  std::string difference(const Record& other) const;

 private:
  void add_bytes(const std::string& piece, const void* bytes, std::size_t count);

  struct Piece {
    std::string name;
    std::size_t first;
  };
  std::vector<std::uint8_t> bytes_;
  std::vector<Piece> pieces_;
  std::vector<std::string> broken_;
};

/// How much a case does on a level: the scalar reference need not repeat itself to be compared with, and sanitizers are slow.
struct Setting {
  Edge edge = Edge::kEnd;
  bool thorough = true;  // also cuts the work in every way, and checks that no bit changes
};

struct Case {
  std::string op;     // "multiply_int8 q4_1 int8-token": family, kernel, formats
  std::string shape;  // "inputs 96"
  std::function<void(const cpu::KernelSet&, const Setting&, Record&)> run;
};

std::vector<Case> matmul_cases();
std::vector<Case> row_cases();
std::vector<Case> attention_cases();
std::vector<Case> logit_cases();
std::vector<Case> wire_cases();
std::vector<Case> all_cases();
/// Empty, or which tables have entries that no case calls.
std::string uncovered_tables();

/// Fills gaps between rows; no kernel may touch it.
inline constexpr std::uint32_t kGapBits = 0x7e57ab1eU;
void fill_gap(float* from, std::size_t count);

}  // namespace troupe::kernels::testing
