// Text: a string that knows of every byte whether it comes from the template or from the caller. Plain value.
// Invariant: no operation turns a caller's byte into a template's; control tokens are recognised in template bytes only.
#pragma once
#include "runtime/text/tokenizer.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text::jinja {

enum class Origin : char { kTemplate, kCaller };

class Text {
 public:
  Text() = default;
  Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)), origins_(bytes_.size(), static_cast<char>(origin)) {}

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  Origin origin(std::size_t at) const { return static_cast<Origin>(origins_[at]); }
  /// kCaller if any byte is the caller's: the origin of whatever is computed from this text as a whole.
  Origin weakest_origin() const;

  Text& append(const Text& other);
  Text& append(std::string_view bytes, Origin origin);
  /// Bytes [begin, begin + length), cut to what is there.
  Text slice(std::size_t begin, std::size_t length = std::string::npos) const;
  /// The same bytes' origins under other bytes of the same number (upper and lower case).
  Text with_bytes(std::string bytes) const;
  /// Byte offset of every character, and the size as the last entry. A byte outside valid UTF-8 counts as a character.
  std::vector<std::size_t> character_offsets() const;
  /// Runs of one origin, for the tokenizer.
  std::vector<TextPiece> pieces() const;

 private:
  std::string bytes_;
  std::string origins_;  // an Origin for each byte
};

}  // namespace troupe::text::jinja
