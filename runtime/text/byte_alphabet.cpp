#include "runtime/text/byte_alphabet.h"

#include "runtime/text/utf8.h"

#include <array>

namespace troupe::text {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}
constexpr std::uint32_t kCodes = 0x100 + 68;  // 68 bytes do not stand for themselves

struct Alphabet {
  std::array<std::uint16_t, 256> code_of_byte{};
  std::array<std::int16_t, kCodes> byte_of_code{};
};
constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte_of_code) byte = -1;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned code = stands_for_itself(byte) ? byte : next++;
    alphabet.code_of_byte[byte] = static_cast<std::uint16_t>(code);
    alphabet.byte_of_code[code] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string byte_symbol(unsigned char byte) {
  std::string out;
  append_utf8(out, kAlphabet.code_of_byte[byte]);
  return out;
}

std::optional<std::string> bytes_of_symbols(std::string_view symbols) {
  std::string out;
  while (!symbols.empty()) {
    const Utf8Step step = utf8_step(symbols);
    if (step.kind != Utf8::kValid) return std::nullopt;
    const std::uint32_t code = utf8_code_point(symbols.substr(0, step.length));
    if (code >= kCodes || kAlphabet.byte_of_code[code] < 0) return std::nullopt;
    out += static_cast<char>(kAlphabet.byte_of_code[code]);
    symbols.remove_prefix(step.length);
  }
  return out;
}

}  // namespace troupe::text
