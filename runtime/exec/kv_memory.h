// K and V of a rank: the names of their formats, and how much memory they get when nobody says: min(a quarter of the memory, 16 full
// contexts). Pure but for one look at the machine.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::exec {

struct KvFormatRow {
  std::string_view name;  // int8 | fp16 | fp32
  kernels::KvFormat format;
};
std::span<const KvFormatRow> kv_formats();
/// An Error that names the option, kv, and the known ones.
Result<kernels::KvFormat> find_kv_format(std::string_view name);

/// Bytes of memory this process may use: physical memory, or the limit of its control group where that is lower.
std::uint64_t usable_memory();

/// Blocks of `block_bytes` for a model of `context` tokens. `wanted_bytes` 0 = default from `memory`. An Error where not even
/// two blocks fit, naming --kv-memory.
Result<std::uint32_t> choose_device_blocks(std::uint64_t block_bytes, std::uint64_t context, std::uint64_t wanted_bytes,
                                           std::uint64_t memory);

}  // namespace troupe::exec
