#include "runtime/exec/slow_store.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace troupe::exec {
namespace {

StoreSpec spec_of(const TierStore& store) {
  StoreSpec spec;
  spec.block_bytes = store.block_bytes();
  spec.blocks = store.blocks();
  return spec;
}

}  // namespace

SlowStore::SlowStore(std::unique_ptr<TierStore> inner, std::uint64_t bytes_per_second)
    : TierStore(spec_of(*inner)), inner_(std::move(inner)), bytes_per_second_(bytes_per_second) {
  TROUPE_CHECK(bytes_per_second > 0);
}

Status SlowStore::get(std::span<BlockRead> reads) {
  const auto start = std::chrono::steady_clock::now();
  const Status status = inner_->get(reads);
  const auto done = std::count_if(reads.begin(), reads.end(), [](const BlockRead& read) { return read.done; });
  const double bytes = static_cast<double>(done) * static_cast<double>(block_bytes_);
  const std::chrono::duration<double> time(bytes / static_cast<double>(bytes_per_second_));
  std::this_thread::sleep_until(start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  return status;
}

}  // namespace troupe::exec
