// Model files of random 8-bit weights in a wanted shape, for measurements whose figures do not depend on the values. Byte-level vocabulary.
#pragma once
#include "messages/error.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::cluster::bench {

/// Widths are multiples of 32.
struct ModelShape {
  std::uint32_t layers = 6, hidden = 2048, ffn = 5632;
  std::uint32_t q_heads = 32, kv_heads = 4, head_dim = 64;
  std::uint32_t context = 4096;
};

/// Architecture llama, Q8_0, a head over the bytes and three control tokens. Greedy answers are printable ASCII, so that every token is
/// seen as text at once. Written in pieces. Error: `path` cannot be written.
Status write_random_model(const ModelShape& shape, std::uint64_t seed, const std::filesystem::path& path);
/// Ids of the printable ASCII characters: prompts are made of them.
inline constexpr std::uint32_t kControlTokens = 3, kFirstPlainToken = kControlTokens + ' ', kPlainTokens = '~' - ' ' + 1;

}  // namespace troupe::cluster::bench
