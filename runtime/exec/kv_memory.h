// How much memory the K and V of a rank get when nobody says: min(a quarter of the memory, 16 full contexts). Pure but for one
// look at the machine.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"

#include <cstdint>

namespace troupe::exec {

/// Bytes of memory this process may use: physical memory, or the limit of its control group where that is lower.
std::uint64_t usable_memory();

/// Blocks of `block_bytes` for a model of `context` tokens. `wanted_bytes` 0 = default from `memory`. An Error where not even
/// two blocks fit, naming --kv-memory.
Result<std::uint32_t> choose_device_blocks(std::uint64_t block_bytes, std::uint64_t context, std::uint64_t wanted_bytes,
                                           std::uint64_t memory);

}  // namespace troupe::exec
