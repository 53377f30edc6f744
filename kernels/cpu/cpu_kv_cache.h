// K and V of all blocks in memory: [layer][block][kv head] slabs (layouts: shared/attention_int8.inl, attention_float.inl). A layer's
// blocks lie together, all kv heads of a block too, so that neighbouring block ids read as one stream.
// Owner: whoever made it; written by rope_append and copy_block, read by attention, all from the compute thread's calls. Blocks that
// travel are copied on the thread of the caller, slab after slab; no slab shares a cache line with another one.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/page_buffer.h"

namespace troupe::kernels::cpu {

class CpuKvCache final : public KvCache {
 public:
  /// Throws std::invalid_argument for a head size that is not a multiple of 16 up to 512, std::bad_alloc.
  explicit CpuKvCache(const KvShape& shape);
  std::size_t bytes() const override { return buffer_.size(); }
  void copy_block(std::uint32_t source, std::uint32_t target, std::size_t tokens) override;
  void make_resident(std::size_t layer, std::uint32_t first, std::uint32_t count) override;
  void poison_block(std::uint32_t block) override;

  /// Layer after layer, as the slabs lie: the same for all instruction sets.
  std::size_t block_bytes() const override { return shape_.layers * slab_bytes_; }
  std::string block_layout() const override;
  void read_block(std::uint32_t block, std::span<std::byte> to) const override;
  void write_block(std::uint32_t block, std::span<const std::byte> from) override;

  std::size_t head_bytes() const { return head_bytes_; }  // from kv head to kv head
  std::size_t slab_bytes() const { return slab_bytes_; }  // from block to block of a layer
  std::uint8_t* slab(std::size_t layer, std::size_t block) const { return buffer_.data() + (layer * shape_.blocks + block) * slab_bytes_; }

 private:
  void check_travel(std::uint32_t block, std::size_t bytes) const;
  void copy_head(const std::uint8_t* source, std::uint8_t* target, std::size_t tokens) const;

  std::size_t head_bytes_, slab_bytes_;
  PageBuffer buffer_;
};

}  // namespace troupe::kernels::cpu
