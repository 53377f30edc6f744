#include "runtime/exec/kv_memory.h"

#include "messages/error_reasons.h"
#include "messages/ids.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace troupe::exec {
namespace {

constexpr std::uint64_t kFullContexts = 16, kMemoryShare = 4;
constexpr std::uint64_t kFewestBlocks = 2;       // one to read, one to write
constexpr std::uint64_t kMostBlocks = 1U << 30;  // ids are 32 bits, with room for marks

std::uint64_t control_group_limit(const char* path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  return file >> bytes ? bytes : UINT64_MAX;  // "max", or no such file
}

constexpr KvFormatRow kKvFormats[] = {
    {"int8", kernels::KvFormat::kInt8},
    {"fp16", kernels::KvFormat::kFp16},
    {"fp32", kernels::KvFormat::kFp32},
};

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

std::span<const KvFormatRow> kv_formats() { return kKvFormats; }

Result<kernels::KvFormat> find_kv_format(std::string_view name) {
  std::string known;
  for (const KvFormatRow& row : kKvFormats) {
    if (row.name == name) return row.format;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "kv: '" + std::string(name) + "' is not one of " + known, "kv");
}

std::uint64_t usable_memory() {
  const std::uint64_t physical = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(
      {physical, control_group_limit("/sys/fs/cgroup/memory.max"), control_group_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

Result<std::uint32_t> choose_device_blocks(std::uint64_t block_bytes, std::uint64_t context, std::uint64_t wanted_bytes,
                                           std::uint64_t memory) {
  const std::uint64_t context_blocks = (context + kBlockTokens - 1) / kBlockTokens;
  std::uint64_t blocks = wanted_bytes / block_bytes;
  if (wanted_bytes == 0) blocks = std::min(memory / kMemoryShare / block_bytes, kFullContexts * context_blocks);
  if (wanted_bytes > memory)
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      "kv-memory: " + mebibytes(wanted_bytes) + " is more than the memory of this machine (" + mebibytes(memory) + ")",
                      "kv-memory");
  if (blocks < kFewestBlocks)
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kNotEnoughBlocks,
                      "kv-memory: room for " + std::to_string(blocks) + " blocks of " + std::to_string(block_bytes) + " bytes; at least " +
                          std::to_string(kFewestBlocks) + " are needed",
                      "kv-memory");
  return static_cast<std::uint32_t>(std::min(blocks, kMostBlocks));
}

}  // namespace troupe::exec
