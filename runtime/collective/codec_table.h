// Codecs of the data plane: names of wire formats, as options and messages spell them.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"

#include <span>
#include <string_view>

namespace troupe::collective {

struct CodecRow {
  std::string_view name;  // fp32 | bf16 | int8 | int8-g32 | int6 | int4
  kernels::WireFormat format;
  std::string_view help;
};
std::span<const CodecRow> codecs();
/// An Error that names the known ones.
Result<kernels::WireFormat> find_codec(std::string_view name);
std::string_view codec_name(kernels::WireFormat format);

}  // namespace troupe::collective
