// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A draw is a function of (seed, choice, position) alone, so it is the same in any batch, after a restart, and on any node.
// Pure functions; any thread.
#pragma once
#include <array>
#include <cstdint>

namespace troupe::sample {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// In [0, 1), a multiple of 2^-24. `position` is the one the drawn token will take in its sequence.
float uniform(std::uint64_t seed, std::uint32_t choice, std::uint32_t position);

}  // namespace troupe::sample
