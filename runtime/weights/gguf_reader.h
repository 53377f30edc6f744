// The GGUF container (versions 2 and 3, little-endian) read from its first bytes: header, metadata, tensor table. One pass, one thread.
// Every count, length, offset and alignment is checked against the bytes that are there before it is used or allocated for.
// Source: the GGUF specification in ggml's docs/gguf.md.
#pragma once
#include "messages/error.h"
#include "runtime/weights/gguf_file.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::weights {

/// Kinds of metadata values, numbered as in the file.
enum class GgufKind : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// `count` elements of one kind, laid out from `offset` on: checked to lie in the file, decoded when asked for.
struct MetadataArray {
  GgufKind kind;
  std::uint64_t count;
  std::size_t offset;
};
/// Strings are views into the head.
using MetadataValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, MetadataArray>;
struct MetadataEntry {
  MetadataValue value;
  std::size_t offset;  // of the value in the file
};

struct GgufContent {
  std::map<std::string, MetadataEntry, std::less<>> metadata;
  std::vector<Tensor> tensors;
  std::vector<std::size_t> tensor_offsets;  // where each tensor's description begins, for error texts
};

/// `head`: the file's first bytes, as far as its tensor table at least. `file_name` is for error texts only: "<file>: <field> at
/// offset N: <what>". `ran_out` (may be nullptr) becomes true if it failed only because the head ended before the file.
Result<GgufContent> read_gguf(std::span<const std::byte> head, std::uint64_t file_bytes, const std::string& file_name, bool* ran_out);
/// A file that is there as a whole.
Result<GgufContent> read_gguf(std::span<const std::byte> file, const std::string& file_name);

/// The one text form of errors about a model file. `field` may come from the file: unprintable bytes are escaped, length bounded.
Error bad_model_file(const std::string& file_name, std::string_view field, std::size_t offset, std::string_view what, ErrorReason reason);

// Elements of a checked array.
std::vector<std::string> array_texts(std::span<const std::byte> file, const MetadataArray& array);      // kind kString
std::vector<std::int64_t> array_integers(std::span<const std::byte> file, const MetadataArray& array);  // any integer kind
bool is_integer(GgufKind kind);

}  // namespace troupe::weights
