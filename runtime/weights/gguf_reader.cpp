#include "runtime/weights/gguf_reader.h"

#include "messages/error_reasons.h"
#include "runtime/weights/gguf_cursor.h"
#include "runtime/weights/tensor_table.h"

#include <array>
#include <cstdio>
#include <optional>

namespace troupe::weights {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kKeyLimit = 65535;    // bytes, as in the specification
constexpr std::uint64_t kTextLimit = 64U << 20;
constexpr std::uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;           // key length, key, kind, value
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name length, name, dimensions, one extent, type, offset
constexpr std::uint32_t kDefaultAlignment = 32;

/// Bytes of one value of a fixed-size kind; nullopt for strings, arrays and unknown kinds.
std::optional<std::uint64_t> fixed_bytes(GgufKind kind) {
  switch (kind) {
    case GgufKind::kUint8:
    case GgufKind::kInt8:
    case GgufKind::kBool: return 1;
    case GgufKind::kUint16:
    case GgufKind::kInt16: return 2;
    case GgufKind::kUint32:
    case GgufKind::kInt32:
    case GgufKind::kFloat32: return 4;
    case GgufKind::kUint64:
    case GgufKind::kInt64:
    case GgufKind::kFloat64: return 8;
    case GgufKind::kString:
    case GgufKind::kArray: break;
  }
  return std::nullopt;
}

template <class Stored, class Kept>
bool read_as(GgufCursor& cursor, std::string_view field, MetadataValue& out) {
  Stored stored{};
  if (!cursor.number(stored, field)) return false;
  out = static_cast<Kept>(stored);
  return true;
}

bool read_array(GgufCursor& cursor, std::string_view field, MetadataValue& out) {
  const std::size_t start = cursor.offset();
  std::uint32_t kind = 0;
  std::uint64_t count = 0;
  if (!cursor.number(kind, field) || !cursor.number(count, field)) return false;
  const MetadataArray array{static_cast<GgufKind>(kind), count, cursor.offset()};
  out = array;
  if (array.kind == GgufKind::kString) {
    for (std::uint64_t i = 0; i < count; ++i) {  // ends at the latest with the file: every string takes 8 bytes or more
      std::string_view text;
      if (!cursor.text(text, field, kTextLimit)) return false;
    }
    return true;
  }
  const auto element = fixed_bytes(array.kind);
  if (!element) return cursor.fail(field, start, "array of kind " + std::to_string(kind) + " is not supported", ErrorReason::kBadModelFile);
  if (count > cursor.remaining() / *element)
    return cursor.fail(field, start, "array of " + std::to_string(count) + " elements does not fit in the file (truncated?)",
                       ErrorReason::kBadModelFile);
  return cursor.skip(count * *element, field);
}

bool read_value(GgufCursor& cursor, std::string_view field, std::uint32_t kind, std::size_t kind_offset, MetadataValue& out) {
  switch (static_cast<GgufKind>(kind)) {
    case GgufKind::kUint8: return read_as<std::uint8_t, std::uint64_t>(cursor, field, out);
    case GgufKind::kInt8: return read_as<std::int8_t, std::int64_t>(cursor, field, out);
    case GgufKind::kUint16: return read_as<std::uint16_t, std::uint64_t>(cursor, field, out);
    case GgufKind::kInt16: return read_as<std::int16_t, std::int64_t>(cursor, field, out);
    case GgufKind::kUint32: return read_as<std::uint32_t, std::uint64_t>(cursor, field, out);
    case GgufKind::kInt32: return read_as<std::int32_t, std::int64_t>(cursor, field, out);
    case GgufKind::kUint64: return read_as<std::uint64_t, std::uint64_t>(cursor, field, out);
    case GgufKind::kInt64: return read_as<std::int64_t, std::int64_t>(cursor, field, out);
    case GgufKind::kFloat32: return read_as<float, double>(cursor, field, out);
    case GgufKind::kFloat64: return read_as<double, double>(cursor, field, out);
    case GgufKind::kBool: {
      std::uint8_t stored = 0;
      const std::size_t start = cursor.offset();
      if (!cursor.number(stored, field)) return false;
      if (stored > 1) return cursor.fail(field, start, "a boolean must be 0 or 1", ErrorReason::kBadModelFile);
      out = stored != 0;
      return true;
    }
    case GgufKind::kString: {
      std::string_view text;
      if (!cursor.text(text, field, kTextLimit)) return false;
      out = text;
      return true;
    }
    case GgufKind::kArray: return read_array(cursor, field, out);
  }
  return cursor.fail(field, kind_offset, "value kind " + std::to_string(kind) + " is unknown", ErrorReason::kBadModelFile);
}

bool read_metadata(GgufCursor& cursor, std::uint64_t count, GgufContent& content) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t start = cursor.offset();
    std::string_view key;
    std::uint32_t kind = 0;
    if (!cursor.text(key, "metadata key " + std::to_string(i), kKeyLimit)) return false;
    if (key.empty()) return cursor.fail("metadata key " + std::to_string(i), start, "the key is empty", ErrorReason::kBadModelFile);
    const std::size_t kind_offset = cursor.offset();
    if (!cursor.number(kind, key)) return false;
    const std::size_t value_offset = cursor.offset();
    MetadataValue value;
    if (!read_value(cursor, key, kind, kind_offset, value)) return false;
    const bool added = content.metadata.try_emplace(std::string(key), MetadataEntry{value, value_offset}).second;
    if (!added) return cursor.fail(key, start, "the key occurs twice", ErrorReason::kBadModelFile);
  }
  return true;
}

/// general.alignment, or its default. The specification asks for a multiple of 8; every writer uses a power of two.
bool read_alignment(GgufCursor& cursor, const GgufContent& content, std::uint64_t& alignment) {
  alignment = kDefaultAlignment;
  const auto found = content.metadata.find(std::string_view("general.alignment"));
  if (found == content.metadata.end()) return true;
  const auto* value = std::get_if<std::uint64_t>(&found->second.value);
  if (value == nullptr || *value < 8 || *value > 65536 || (*value & (*value - 1)) != 0)
    return cursor.fail("general.alignment", found->second.offset, "must be a power of two from 8 to 65536", ErrorReason::kBadModelFile);
  alignment = *value;
  return true;
}

bool read_header(GgufCursor& cursor, std::uint64_t& tensors, std::uint64_t& entries) {
  std::uint32_t magic = 0, version = 0;
  if (!cursor.number(magic, "magic")) return false;
  if (magic != kMagic) return cursor.fail("magic", 0, "this is not a GGUF file", ErrorReason::kBadModelFile);
  if (!cursor.number(version, "version")) return false;
  if (version != 0 && (version & 0xffff) == 0)
    return cursor.fail("version", 4, "big-endian GGUF files are not supported", ErrorReason::kUnsupportedModel);
  if (version < 2 || version > 3)
    return cursor.fail("version", 4, "version " + std::to_string(version) + " is not supported (2 and 3 are)",
                       ErrorReason::kUnsupportedModel);
  if (!cursor.number(tensors, "tensor count") || !cursor.number(entries, "metadata count")) return false;
  if (tensors > cursor.remaining() / kMinTensorBytes)
    return cursor.fail("tensor count", 8, std::to_string(tensors) + " tensors do not fit in the file", ErrorReason::kBadModelFile);
  if (entries > cursor.remaining() / kMinEntryBytes)
    return cursor.fail("metadata count", 16, std::to_string(entries) + " entries do not fit in the file", ErrorReason::kBadModelFile);
  return true;
}

/// For error texts: printable ASCII stays, anything else is escaped, long names are cut. One line whatever the file holds.
std::string printable(std::string_view field) {
  constexpr std::size_t kLimit = 96;
  std::string out;
  for (const char c : field.substr(0, kLimit)) {
    if (c >= 0x20 && c < 0x7f) {
      out += c;
      continue;
    }
    std::array<char, 5> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(c));
    out += escaped.data();
  }
  return field.size() > kLimit ? out + "..." : out;
}

}  // namespace

Error bad_model_file(const std::string& file_name, std::string_view field, std::size_t offset, std::string_view what, ErrorReason reason) {
  return make_error(ErrorClass::kCorrupted, reason,
                    file_name + ": " + printable(field) + " at offset " + std::to_string(offset) + ": " + std::string(what));
}

Result<GgufContent> read_gguf(std::span<const std::byte> head, std::uint64_t file_bytes, const std::string& file_name, bool* ran_out) {
  GgufCursor cursor(head, file_name, file_bytes);
  GgufContent content;
  std::uint64_t tensors = 0, entries = 0, alignment = 0;
  const bool good = read_header(cursor, tensors, entries) && read_metadata(cursor, entries, content) &&
                    read_alignment(cursor, content, alignment) && read_tensor_table(cursor, tensors, alignment, content);
  if (ran_out != nullptr) *ran_out = cursor.ran_out();
  if (!good) return *cursor.error();
  return content;
}

Result<GgufContent> read_gguf(std::span<const std::byte> file, const std::string& file_name) {
  return read_gguf(file, file.size(), file_name, nullptr);
}

bool is_integer(GgufKind kind) {
  return fixed_bytes(kind) && kind != GgufKind::kFloat32 && kind != GgufKind::kFloat64 && kind != GgufKind::kBool;
}

std::vector<std::string> array_texts(std::span<const std::byte> file, const MetadataArray& array) {
  TROUPE_CHECK(array.kind == GgufKind::kString);
  GgufCursor cursor(file, {}, file.size());
  TROUPE_CHECK(cursor.skip(array.offset, {}));
  std::vector<std::string> out(static_cast<std::size_t>(array.count));  // the reader has seen that many strings
  for (auto& text : out) {
    std::string_view view;
    TROUPE_CHECK(cursor.text(view, {}, kTextLimit));
    text = view;
  }
  return out;
}

std::vector<std::int64_t> array_integers(std::span<const std::byte> file, const MetadataArray& array) {
  TROUPE_CHECK(is_integer(array.kind));
  GgufCursor cursor(file, {}, file.size());
  TROUPE_CHECK(cursor.skip(array.offset, {}));
  std::vector<std::int64_t> out(static_cast<std::size_t>(array.count));
  for (auto& number : out) {
    MetadataValue value;
    TROUPE_CHECK(read_value(cursor, {}, static_cast<std::uint32_t>(array.kind), 0, value));
    number = std::holds_alternative<std::int64_t>(value) ? std::get<std::int64_t>(value)
                                                         : static_cast<std::int64_t>(std::get<std::uint64_t>(value));
  }
  return out;
}

}  // namespace troupe::weights
