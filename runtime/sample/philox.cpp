#include "runtime/sample/philox.h"

namespace troupe::sample {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = kMultiplier0 * counter[0];
    const std::uint64_t b = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

float uniform(std::uint64_t seed, std::uint32_t choice, std::uint32_t position) {
  const auto bits = philox4x32({position, choice, 0, 0}, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return static_cast<float>(bits[0] >> 8) * 0x1p-24F;
}

}  // namespace troupe::sample
