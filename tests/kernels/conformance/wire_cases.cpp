// Wire formats: every length, in arrays that end where wire_row_bytes() says, and sums of one part and of several.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/values.h"

#include <numeric>

namespace troupe::kernels::testing {
namespace {

const cpu::WireCodec& codec_of(const cpu::WireKernels& wire, WireFormat format) {
  switch (format) {
    case WireFormat::kFp32: return wire.fp32;
    case WireFormat::kBf16: return wire.bf16;
    case WireFormat::kInt8Group128: return wire.int8_group128;
    case WireFormat::kInt8Group32: return wire.int8_group32;
    case WireFormat::kInt6Group32: return wire.int6_group32;
    case WireFormat::kInt4Group32: return wire.int4_group32;
  }
  return wire.fp32;
}

std::vector<int> lengths() {
  std::vector<int> all(is_sanitized() ? 20 : 70);
  std::iota(all.begin(), all.end(), 1);
  for (const int n : {95, 96, 97, 127, 128, 129, 161, 255, 256, 257, 300, 511, 512, 513, 576, 1023, 1024, 1025, 1100, 2304})
    all.push_back(n);
  return all;
}

void one(const cpu::WireCodec& codec, WireFormat format, int n, Magnitude magnitude, Edge edge, Record& out) {
  constexpr int kParts = 4;
  const auto count = static_cast<std::size_t>(n);
  const std::string name = "length " + std::to_string(n) + ", " + name_of(magnitude);
  Random random(count + 6000);
  const std::size_t words = wire_row_bytes(format, count) / 4;
  const GuardedArray<float> x(count, edge), y(count, edge);
  std::vector<std::unique_ptr<GuardedArray<std::uint32_t>>> rows;
  std::vector<const std::uint8_t*> parts;
  for (int p = 0; p < kParts; ++p) {
    x.assign(values_of(random, count, magnitude));
    rows.push_back(std::make_unique<GuardedArray<std::uint32_t>>(words, edge));
    auto* bytes = reinterpret_cast<std::uint8_t*>(rows.back()->data());
    codec.encode(x.data(), n, bytes);
    parts.push_back(bytes);
    out.add(name + ", encoded", *rows.back());
    for (const bool add : {false, true}) {
      codec.decode_sum(parts.data(), p + 1, 0, n, y.data(), add);  // the second time to what the first one left
      out.add(name + ", sum of " + std::to_string(p + 1), y);
    }
  }
}

}  // namespace

std::vector<Case> wire_cases() {
  std::vector<Case> all;
  for (const WireFormat format : kAllWireFormats)
    all.push_back({std::string("wire ") + name_of(format), "lengths 1 to 70 and more",
                   [format](const cpu::KernelSet& set, const Setting& setting, Record& out) {
                     for (const int n : lengths())
                       for (const Magnitude magnitude : kAllMagnitudes)
                         one(codec_of(set.wire, format), format, n, magnitude, setting.edge, out);
                   }});
  return all;
}

}  // namespace troupe::kernels::testing
