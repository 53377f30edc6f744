#include "tests/kernels/conformance/values.h"

namespace troupe::kernels::testing {

const char* name_of(Magnitude magnitude) {
  switch (magnitude) {
    case Magnitude::kOrdinary: return "ordinary";
    case Magnitude::kMixed: return "mixed";
    case Magnitude::kZero: return "zero";
    case Magnitude::kDenormal: return "denormal";
    case Magnitude::kHuge: return "huge";
  }
  return "?";
}

const char* name_of(StorageType type) {
  switch (type) {
    case StorageType::kF32: return "f32";
    case StorageType::kF16: return "f16";
    case StorageType::kBF16: return "bf16";
    case StorageType::kQ8_0: return "q8_0";
    case StorageType::kQ4_0: return "q4_0";
    case StorageType::kQ4_1: return "q4_1";
    case StorageType::kQ6_K: return "q6_k";
  }
  return "?";
}

const char* name_of(Activations activations) {
  switch (activations) {
    case Activations::kInt8Group32: return "int8";
    case Activations::kInt8Token: return "int8-token";
    case Activations::kFp32: return "fp32";
    case Activations::kBf16: return "bf16";
  }
  return "?";
}

const char* name_of(KvFormat format) {
  switch (format) {
    case KvFormat::kInt8: return "int8";
    case KvFormat::kFp16: return "fp16";
    case KvFormat::kFp32: return "fp32";
  }
  return "?";
}

const char* name_of(WireFormat format) {
  switch (format) {
    case WireFormat::kFp32: return "fp32";
    case WireFormat::kBf16: return "bf16";
    case WireFormat::kInt8Group128: return "int8 group 128";
    case WireFormat::kInt8Group32: return "int8 group 32";
    case WireFormat::kInt6Group32: return "int6 group 32";
    case WireFormat::kInt4Group32: return "int4 group 32";
  }
  return "?";
}
const char* name_of(cpu::PanelFormat format) {
  switch (format) {
    case cpu::PanelFormat::kW4Group32: return "w4_group32";
    case cpu::PanelFormat::kW8Group32: return "w8_group32";
    case cpu::PanelFormat::kW8Group16: return "w8_group16";
    case cpu::PanelFormat::kW8Channel: return "w8_channel";
    case cpu::PanelFormat::kF32: return "f32";
    case cpu::PanelFormat::kF16: return "f16";
    case cpu::PanelFormat::kBF16: return "bf16";
  }
  return "?";
}

std::vector<float> values_of(Random& random, std::size_t count, Magnitude magnitude) {
  std::vector<float> values = normals(random, count);
  for (std::size_t i = 0; i < count; ++i) {
    float& x = values[i];
    switch (magnitude) {
      case Magnitude::kOrdinary: break;
      case Magnitude::kMixed: x = i % 7 == 3 ? (i % 2 ? 0.0F : -0.0F) : i % 41 == 5 ? 40 * x : x; break;
      case Magnitude::kZero: x = i % 2 ? 0.0F : -0.0F; break;
      case Magnitude::kDenormal: x *= 0x1p-130F; break;
      case Magnitude::kHuge: x *= 1e30F; break;
    }
  }
  return values;
}

GuardedRows::GuardedRows(std::size_t count, std::size_t cols, std::size_t gap, bool per_group, Edge edge)
    : values((count - 1) * (cols + gap) + cols, edge),
      scales(count * (cols / cpu::kGroup), edge),
      scaled_sums(count * (cols / cpu::kGroup), edge),
      half_sums(2 * count * (cols / cpu::kGroup), edge),
      biases(count * (cols / cpu::kGroup), edge) {
  rows.values = values.data();
  rows.stride = cols + gap;
  rows.scales = scales.data();
  rows.half_sums = half_sums.data();
  rows.biases = biases.data();
  rows.scaled_sums = scaled_sums.data();
  rows.per_group = per_group;
}

void GuardedRows::add_to(Record& out, const std::string& piece) const {
  out.add(piece + ", values", values);
  out.add(piece + ", scales", scales);
  out.add(piece + ", half sums", half_sums);
  out.add(piece + ", biases", biases);
  out.add(piece + ", scaled sums", scaled_sums);
}

}  // namespace troupe::kernels::testing
