#include "tests/kernels/conformance/cases.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace troupe::kernels::testing {

void Record::add_bytes(const std::string& piece, const void* bytes, std::size_t count) {
  pieces_.push_back({piece, bytes_.size()});
  const auto* from = static_cast<const std::uint8_t*>(bytes);
  bytes_.insert(bytes_.end(), from, from + count);
}

std::uint64_t Record::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::uint8_t byte : bytes_) hash = (hash ^ byte) * 0x100000001b3U;
  return hash;
}

std::string Record::difference(const Record& other) const {
  const auto [mine, theirs] = std::mismatch(bytes_.begin(), bytes_.end(), other.bytes_.begin(), other.bytes_.end());
  if (mine == bytes_.end() && theirs == other.bytes_.end()) return {};
  if (mine == bytes_.end()) return "the record ends";
  const auto at = static_cast<std::size_t>(mine - bytes_.begin());
  const auto after = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.first > at; });
  const Piece& piece = *std::prev(after);  // the first begins at byte 0
  return piece.name + ", byte " + std::to_string(at - piece.first);
}

std::vector<Case> all_cases() {
  std::vector<Case> all = matmul_cases();
  for (auto* more : {row_cases, attention_cases, logit_cases, wire_cases}) {
    std::vector<Case> cases = more();
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  }
  return all;
}

std::string uncovered_tables() {
  // The tables hold nothing but pointers to functions, so their sizes tell how many.
  constexpr struct {
    const char* table;
    std::size_t bytes, covered;
  } kTables[] = {
      {"MatmulKernels", sizeof(cpu::MatmulKernels), 3}, {"BfloatKernels", sizeof(cpu::BfloatKernels), 2},
      {"RowKernels", sizeof(cpu::RowKernels), 6},       {"AttentionKernels", sizeof(cpu::AttentionKernels), 9},
      {"LogitKernels", sizeof(cpu::LogitKernels), 4},   {"WireKernels", sizeof(cpu::WireKernels), 12},
  };
  std::string uncovered;
  for (const auto& row : kTables)
    if (row.bytes != row.covered * sizeof(void (*)()))
      uncovered += std::string(row.table) + " has " + std::to_string(row.bytes / sizeof(void (*)())) + " entries, the cases call " +
                   std::to_string(row.covered) + "; ";
  return uncovered;
}

void fill_gap(float* from, std::size_t count) { std::fill_n(from, count, std::bit_cast<float>(kGapBits)); }

}  // namespace troupe::kernels::testing
