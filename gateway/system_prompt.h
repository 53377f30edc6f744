// SystemPrompt: a named system message that the cache is to hold, and the bounds of one, the same for the file and for the API. Plain
// values.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::gateway {

struct SystemPrompt {
  std::string name;
  std::string text;
};
using SystemPrompts = std::vector<SystemPrompt>;

inline constexpr std::size_t kMostSystemPrompts = 256;
inline constexpr std::size_t kSystemPromptNameBytes = 64;
inline constexpr std::size_t kSystemPromptTextBytes = 1 << 20;

inline bool good_system_prompt_name(std::string_view name) {
  const auto good = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= kSystemPromptNameBytes && std::all_of(name.begin(), name.end(), good);
}
inline bool good_system_prompt_text(std::string_view text) { return !text.empty() && text.size() <= kSystemPromptTextBytes; }

/// What names and texts must be, as errors say it.
inline constexpr std::string_view kSystemPromptNameRule = "must be 1 to 64 letters, digits or characters of _.-";
inline constexpr std::string_view kSystemPromptTextRule = "must be 1 to 1048576 bytes of text";

}  // namespace troupe::gateway
