// Inputs of conformance cases: values of all sizes a float has, and int8 rows in guarded memory.
#pragma once
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/support.h"

namespace troupe::kernels::testing {

/// kMixed: a few large channels among ordinary ones, zeros of both signs between them. No result may become NaN: its bits are free.
enum class Magnitude { kOrdinary, kMixed, kZero, kDenormal, kHuge };
inline constexpr Magnitude kAllMagnitudes[] = {Magnitude::kOrdinary, Magnitude::kMixed, Magnitude::kZero, Magnitude::kDenormal,
                                               Magnitude::kHuge};
std::vector<float> values_of(Random& random, std::size_t count, Magnitude magnitude);

// Names for messages; "?" for what is no value. A new value of an enumeration does not compile until it has one here.
const char* name_of(Magnitude magnitude);
const char* name_of(StorageType type);
const char* name_of(Activations activations);
const char* name_of(KvFormat format);
const char* name_of(WireFormat format);
const char* name_of(cpu::PanelFormat format);

/// QuantizedRows that own their memory, each array of exactly the size that kernel_table.h states.
struct GuardedRows {
  GuardedArray<std::int8_t> values;
  GuardedArray<float> scales, scaled_sums;
  GuardedArray<std::int32_t> half_sums, biases;
  cpu::QuantizedRows rows;

  GuardedRows(std::size_t count, std::size_t cols, std::size_t gap, bool per_group, Edge edge);
  void add_to(Record& out, const std::string& piece) const;
};

}  // namespace troupe::kernels::testing
