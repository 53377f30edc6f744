#include "runtime/text/utf8.h"

namespace troupe::text {
namespace {
/// What may follow a lead byte: number of continuation bytes, and the range of the first of them.
struct Lead {
  std::size_t continuations;
  unsigned char low, high;
};
Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {0, 0, 0};
  if (byte >= 0xc2 && byte <= 0xdf) return {1, 0x80, 0xbf};
  if (byte == 0xe0) return {2, 0xa0, 0xbf};
  if (byte == 0xed) return {2, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {2, 0x80, 0xbf};
  if (byte == 0xf0) return {3, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {3, 0x80, 0xbf};
  if (byte == 0xf4) return {3, 0x80, 0x8f};
  return {0, 1, 0};  // never a lead byte
}
}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.continuations == 0) return {lead.low == 0 ? Utf8::kValid : Utf8::kInvalid, 1};
  for (std::size_t i = 1; i <= lead.continuations; ++i) {
    if (i >= text.size()) return {Utf8::kIncomplete, text.size()};
    const unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xbf;
    if (byte(i) < low || byte(i) > high) return {Utf8::kInvalid, i};
  }
  return {Utf8::kValid, lead.continuations + 1};
}

std::uint32_t utf8_code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (lead < 0x80) return lead;
  std::uint32_t code = lead & (0x7fU >> character.size());
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return code;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    text += step.kind == Utf8::kValid ? bytes.substr(0, step.length) : kReplacement;
    if (step.kind == Utf8::kIncomplete) break;
    bytes.remove_prefix(step.length);
  }
  return text;
}

void CharacterCounter::add(std::string_view bytes) {
  rest_ += bytes;
  std::size_t at = 0;
  while (at < rest_.size()) {
    const Utf8Step step = utf8_step(std::string_view(rest_).substr(at));
    if (step.kind == Utf8::kIncomplete) break;
    at += step.length;
    ++count_;
  }
  rest_.erase(0, at);
}

}  // namespace troupe::text
