#include "runtime/exec/kv_residency.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace troupe::exec {
namespace {
constexpr int kLowPriority = 5;  // computing goes first, but where it takes every core this must not starve
constexpr std::size_t kAheadBytes = std::size_t{64} << 20;
constexpr std::uint32_t kFewestAhead = 64, kBlocksAtOnce = 32;
constexpr int kPause = 10;                             // times as long as the work
constexpr std::chrono::microseconds kShortPause{100};  // shorter ones are left out: the pages were there
}  // namespace

std::uint32_t KvResidency::usual_ahead(std::size_t block_bytes) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(kAheadBytes / std::max<std::size_t>(block_bytes, 1), kFewestAhead, UINT32_MAX));
}

KvResidency::KvResidency(kernels::KvCache& kv, std::uint32_t ahead, std::size_t threads)
    : kv_(kv), ahead_(ahead), goal_(static_cast<std::uint32_t>(std::min<std::size_t>(ahead, kv.shape().blocks))) {
  // The first request may come at once, and needs a page of every layer in one step.
  std::vector<std::jthread> takers;
  for (std::size_t taker = 0; taker < threads; ++taker)
    takers.emplace_back([this, taker, threads] {
      for (std::size_t layer = taker; layer < kv_.shape().layers; layer += threads) kv_.make_resident(layer, 0, goal_);
    });
  takers.clear();
  thread_ = std::thread([this, resident = goal_] {
    ::setpriority(PRIO_PROCESS, 0, kLowPriority);  // of this thread; best effort
    run(resident);
  });
}

KvResidency::~KvResidency() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void KvResidency::used(BlockId block) {
  if (block < highest_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard guard(mutex_);
    highest_ = std::max(highest_.load(std::memory_order_relaxed), block + 1);
    goal_ = static_cast<std::uint32_t>(std::min<std::size_t>(std::size_t{highest_} + ahead_, kv_.shape().blocks));
  }
  wake_.notify_one();
}

void KvResidency::run(std::uint32_t resident) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || resident < goal_; });
    if (stop_) return;
    const std::uint32_t count = std::min(goal_ - resident, kBlocksAtOnce);
    lock.unlock();
    take(resident, count);
    resident += count;
    lock.lock();
  }
}

/// Pauses in proportion to what each layer took: on a machine whose cores all compute, the time of 30 pages in a row would be missing in
/// one step.
void KvResidency::take(std::uint32_t first, std::uint32_t count) {
  for (std::size_t layer = 0; layer < kv_.shape().layers; ++layer) {
    const auto start = std::chrono::steady_clock::now();
    kv_.make_resident(layer, first, count);
    const auto pause = kPause * (std::chrono::steady_clock::now() - start);
    std::unique_lock lock(mutex_);
    if (stop_) return;
    if (pause > kShortPause) wake_.wait_for(lock, pause, [&] { return stop_; });
  }
}

}  // namespace troupe::exec
