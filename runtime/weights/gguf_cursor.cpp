#include "runtime/weights/gguf_cursor.h"

#include "messages/error_reasons.h"

#include <bit>

namespace troupe::weights {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

bool GgufCursor::fail(std::string_view field, std::size_t offset, std::string_view what, ErrorReason reason) {
  if (!error_) error_ = bad_model_file(file_name_, field, offset, what, reason);
  return false;
}

bool GgufCursor::need(std::uint64_t bytes, std::string_view field) {
  if (error_) return false;
  if (bytes <= head_.size() - offset_) return true;
  ran_out_ = bytes <= remaining();
  return fail(field, offset_,
              "needs " + std::to_string(bytes) + " bytes, but the file ends after " + std::to_string(remaining()) + " (truncated?)",
              ErrorReason::kBadModelFile);
}

bool GgufCursor::text(std::string_view& out, std::string_view field, std::uint64_t limit) {
  const std::size_t start = offset_;
  std::uint64_t length = 0;
  if (!number(length, field)) return false;
  if (length > limit)
    return fail(field, start, "length " + std::to_string(length) + " is above the limit of " + std::to_string(limit),
                ErrorReason::kBadModelFile);
  if (!need(length, field)) return false;
  out = {reinterpret_cast<const char*>(head_.data() + offset_), static_cast<std::size_t>(length)};
  offset_ += static_cast<std::size_t>(length);
  return true;
}

bool GgufCursor::skip(std::uint64_t bytes, std::string_view field) {
  if (!need(bytes, field)) return false;
  offset_ += static_cast<std::size_t>(bytes);
  return true;
}

}  // namespace troupe::weights
