#include "kernels/cpu/cpu_kv_cache.h"

#include "kernels/cpu/kernel_table.h"

#include <cstring>
#include <new>
#include <stdexcept>

namespace troupe::kernels::cpu {
namespace {

// To be raised when the bytes of a slab mean something else: kept blocks are then not taken for new ones.
constexpr int kSlabRevision = 1;

const char* format_name(KvFormat format) {
  switch (format) {
    case KvFormat::kInt8: return "int8";
    case KvFormat::kFp16: return "fp16";
    case KvFormat::kFp32: return "fp32";
  }
  throw std::invalid_argument("kv cache: unknown format");
}

const KvShape& checked(const KvShape& shape) {
  if (shape.head_dim == 0 || shape.head_dim % 16 != 0 || shape.head_dim > kMaxHeadDim)
    throw std::invalid_argument("kv cache: the head size must be a multiple of 16, at most 512");
  if (shape.kv_heads == 0 || shape.layers == 0) throw std::invalid_argument("kv cache: no heads or no layers");
  return shape;
}

std::size_t total_bytes(const KvShape& shape) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(kv_block_bytes(shape), shape.blocks, &bytes)) throw std::bad_alloc();
  return bytes;
}

}  // namespace

CpuKvCache::CpuKvCache(const KvShape& shape)
    : head_bytes_(kv_block_bytes({1, 1, checked(shape).head_dim, 1, shape.format})),
      slab_bytes_(head_bytes_ * shape.kv_heads),
      buffer_(total_bytes(shape)) {
  shape_ = shape;
}

void CpuKvCache::copy_block(std::uint32_t source, std::uint32_t target, std::size_t tokens) {
  if (source >= shape_.blocks || target >= shape_.blocks || tokens > kBlockTokens) throw std::invalid_argument("kv cache: no such block");
  if (source == target) return;
  for (std::size_t layer = 0; layer < shape_.layers; ++layer)
    for (std::size_t head = 0; head < shape_.kv_heads; ++head)
      copy_head(slab(layer, source) + head * head_bytes_, slab(layer, target) + head * head_bytes_, tokens);
}

void CpuKvCache::make_resident(std::size_t layer, std::uint32_t first, std::uint32_t count) {
  if (layer >= shape_.layers || first > shape_.blocks || count > shape_.blocks - first)
    throw std::invalid_argument("kv cache: no such blocks");
  buffer_.make_resident((layer * shape_.blocks + first) * slab_bytes_, count * slab_bytes_);
}

/// Slots behind `tokens` keep what they have.
void CpuKvCache::copy_head(const std::uint8_t* source, std::uint8_t* target, std::size_t tokens) const {
  const std::size_t dim = shape_.head_dim;
  if (tokens == kBlockTokens) {
    std::memcpy(target, source, head_bytes_);
    return;
  }
  if (shape_.format != KvFormat::kInt8) {  // K [dim][32], V [32][dim]
    const std::size_t size = shape_.format == KvFormat::kFp16 ? 2 : 4;
    for (std::size_t d = 0; d < dim; ++d) std::memcpy(target + d * kBlockTokens * size, source + d * kBlockTokens * size, tokens * size);
    std::memcpy(target + dim * kBlockTokens * size, source + dim * kBlockTokens * size, tokens * dim * size);
    return;
  }
  for (std::size_t d = 0; d < dim; d += 4)
    std::memcpy(target + d * kBlockTokens, source + d * kBlockTokens, tokens * 4);  // K [dim/4][32][4]
  const std::size_t values = dim * kBlockTokens, whole = tokens / 4 * dim * 4;      // V [8][dim][4]
  std::memcpy(target + values, source + values, whole);
  for (std::size_t d = 0; d < dim; ++d) std::memcpy(target + values + whole + d * 4, source + values + whole + d * 4, tokens % 4);
  for (std::size_t scales : {2 * values, 2 * values + kBlockTokens * sizeof(float)})
    std::memcpy(target + scales, source + scales, tokens * sizeof(float));
}

void CpuKvCache::poison_block(std::uint32_t block) {
  if (block >= shape_.blocks) throw std::invalid_argument("kv cache: no such block");
  for (std::size_t layer = 0; layer < shape_.layers; ++layer) std::memset(slab(layer, block), 0xff, slab_bytes_);
}

std::string CpuKvCache::block_layout() const {
  return std::string("cpu, ") + format_name(shape_.format) + (shape_.spread_heads ? ", spread heads, " : ", ") +
         std::to_string(kBlockTokens) + " positions, " + std::to_string(shape_.layers) + " layers, " + std::to_string(shape_.kv_heads) +
         " heads of " + std::to_string(shape_.head_dim) + ", revision " + std::to_string(kSlabRevision);
}

void CpuKvCache::check_travel(std::uint32_t block, std::size_t bytes) const {
  if (block >= shape_.blocks) throw std::invalid_argument("kv cache: no such block");
  if (bytes != block_bytes()) throw std::invalid_argument("kv cache: a block that travels has other bytes");
}

void CpuKvCache::read_block(std::uint32_t block, std::span<std::byte> to) const {
  check_travel(block, to.size());
  for (std::size_t layer = 0; layer < shape_.layers; ++layer) std::memcpy(&to[layer * slab_bytes_], slab(layer, block), slab_bytes_);
}

void CpuKvCache::write_block(std::uint32_t block, std::span<const std::byte> from) {
  check_travel(block, from.size());
  for (std::size_t layer = 0; layer < shape_.layers; ++layer) std::memcpy(slab(layer, block), &from[layer * slab_bytes_], slab_bytes_);
}

}  // namespace troupe::kernels::cpu
