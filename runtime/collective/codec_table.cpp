#include "runtime/collective/codec_table.h"

#include "messages/error_reasons.h"

#include <string>

namespace troupe::collective {
namespace {
using kernels::WireFormat;

constexpr CodecRow kRows[] = {
    {"fp32", WireFormat::kFp32, "as computed"},
    {"bf16", WireFormat::kBf16, "rounded to 8 bits of mantissa; half the bytes"},
    {"int8", WireFormat::kInt8Group128, "8 bits, a scale for 128 values; about half the bytes of bf16"},
    {"int8-g32", WireFormat::kInt8Group32, "8 bits, a scale for 32 values; for activations with outliers"},
    {"int6", WireFormat::kInt6Group32, "experiment: 6 bits, a scale for 32 values"},
    {"int4", WireFormat::kInt4Group32, "experiment: 4 bits, a scale for 32 values"},
};
}  // namespace

std::span<const CodecRow> codecs() { return kRows; }

Result<WireFormat> find_codec(std::string_view name) {
  std::string known;
  for (const CodecRow& row : kRows) {
    if (row.name == name) return row.format;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "there is no codec '" + std::string(name) + "'; known: " + known,
                    "codec");
}

std::string_view codec_name(WireFormat format) {
  for (const CodecRow& row : kRows) {
    if (row.format == format) return row.name;
  }
  TROUPE_CHECK(false);
  return {};
}

}  // namespace troupe::collective
