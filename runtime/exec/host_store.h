// HostStore: blocks in memory of the host. The address space of all places is reserved at the start; the system gives memory when a place
// is first written, which costs ten times the copy: so some is taken ahead of use when nobody waits. Thread and invariant:
// memory_store.h.
#pragma once
#include "runtime/exec/memory_store.h"

#include <atomic>
#include <memory>

namespace troupe::exec {

class HostStore final : public MemoryStore {
 public:
  static Result<std::unique_ptr<TierStore>> open(const StoreSpec& spec);
  ~HostStore() override;
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;
  bool tidy() override;

 private:
  HostStore(const StoreSpec& spec, std::size_t stride, std::byte* memory);
  void copy_in(BlockId block, const std::byte* from) override;
  void copy_out(BlockId block, std::byte* to) const override;
  std::byte* at(BlockId block) const { return memory_ + block * stride_; }

  const std::size_t stride_;
  std::byte* const memory_;
  std::atomic<std::size_t> used_ = 0;  // first byte beyond the places written so far
  std::size_t resident_ = 0;           // tidy() only
};

}  // namespace troupe::exec
