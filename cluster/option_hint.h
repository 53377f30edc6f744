// What a user may have meant by an option, key or command that does not exist. Pure functions; any thread.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace troupe::cluster {

/// The word of `words` that `word` begins, or else the one it differs from by few letters; empty if none is near.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> words);
/// "; did you mean --port?" for "--prot": of the options that any of `commands` takes. Empty if none is near.
std::string option_hint(std::string_view given, unsigned commands, std::string_view dashes = "--");

}  // namespace troupe::cluster
