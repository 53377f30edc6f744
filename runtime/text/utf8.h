// UTF-8 at the byte level, strict: no surrogates, no overlong forms, nothing above U+10FFFF. Pure functions, any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::text {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

enum class Utf8 {
  kValid,       // a character of `length` bytes
  kInvalid,     // `length` bytes that no continuation can make valid (the maximal subpart, so one U+FFFD each)
  kIncomplete,  // the text ends inside what may still become a character
};
struct Utf8Step {
  Utf8 kind;
  std::size_t length;  // > 0
};
/// What stands at the front of `text` (not empty). Source of the subpart rule: Unicode 15, section 3.9, table 3-7 and U+FFFD practice.
Utf8Step utf8_step(std::string_view text);
/// The code point of a valid character.
std::uint32_t utf8_code_point(std::string_view character);
void append_utf8(std::string& out, std::uint32_t code_point);
/// `bytes` as text: each sequence that is no character becomes one U+FFFD, one that is cut off at the end too.
std::string to_valid_utf8(std::string_view bytes);

/// Counts the characters of a text that comes in pieces of bytes, as to_valid_utf8 makes them.
class CharacterCounter {
 public:
  void add(std::string_view bytes);
  /// Whole characters so far; the beginning of one is not counted.
  std::uint32_t count() const { return count_; }

 private:
  std::string rest_;
  std::uint32_t count_ = 0;
};

}  // namespace troupe::text
