// The alphabet in which byte-level BPE vocabularies spell bytes: each byte is one printable character.
// Source: GPT-2's encoder.py (bytes_to_unicode). Immutable tables; any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace troupe::text {

/// The character (UTF-8) that stands for a byte.
std::string byte_symbol(unsigned char byte);
/// The bytes that a token spells; nullopt if it holds a character outside the alphabet.
std::optional<std::string> bytes_of_symbols(std::string_view symbols);

}  // namespace troupe::text
