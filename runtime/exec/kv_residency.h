// KvResidency: takes the memory of K/V blocks from the system ahead of their first use. Memory is promised at the start and given when it
// is first written: a huge page a layer, all in the same step, which then takes a tenth of a second longer on a virtual machine. Taking
// all of it at the start would be as quick, but a large pool that is hardly used would hold memory that other programs want.
// Owner: an Executor; used() on any thread, a thread of its own takes the memory. Invariant: bytes never change.
#pragma once
#include "kernels/backend.h"
#include "messages/ids.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace troupe::exec {

class KvResidency {
 public:
  /// Keeps `ahead` blocks beyond the highest used id resident. `threads` take the first of them before this returns. `kv` must live longer.
  KvResidency(kernels::KvCache& kv, std::uint32_t ahead, std::size_t threads);
  ~KvResidency();
  KvResidency(const KvResidency&) = delete;
  KvResidency& operator=(const KvResidency&) = delete;
  /// A block is about to be written. Costs a comparison, unless it is the highest so far.
  void used(BlockId block);
  /// What to keep ahead in a pool of blocks of `block_bytes`: some 64 MiB, and 64 blocks at least.
  static std::uint32_t usual_ahead(std::size_t block_bytes);

 private:
  void run(std::uint32_t resident);  // blocks [0, resident) are
  void take(std::uint32_t first, std::uint32_t count);

  kernels::KvCache& kv_;
  const std::uint32_t ahead_;
  std::atomic<std::uint32_t> highest_ = 0;  // first block beyond those used; written under the lock
  std::mutex mutex_;
  std::condition_variable wake_;
  std::uint32_t goal_ = 0;  // first block that need not be resident
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troupe::exec
