// PublishedKeys: keys of blocks lately published, to estimate what a waiting prompt would find in the cache without locking it there.
// Owned by the Scheduler, on its thread. Bounded: the oldest keys are forgotten. An estimate only: the device tier may have evicted them.
#pragma once
#include "messages/ids.h"

#include <deque>
#include <span>
#include <unordered_set>

namespace troupe::schedule {

class PublishedKeys {
 public:
  void add(const BlockKey& key) {
    if (!known_.insert(key).second) return;
    order_.push_back(key);
    if (order_.size() <= kKept) return;
    known_.erase(order_.front());
    order_.pop_front();
  }
  /// Leading tokens of a chain that were published.
  std::uint32_t leading_tokens(std::span<const BlockKey> keys) const {
    std::uint32_t tokens = 0;
    for (const BlockKey& key : keys) {
      if (!known_.contains(key)) break;
      tokens += kBlockTokens;
    }
    return tokens;
  }
  void clear() {
    known_.clear();
    order_.clear();
  }

 private:
  static constexpr std::size_t kKept = 65536;
  std::unordered_set<BlockKey> known_;
  std::deque<BlockKey> order_;
};

}  // namespace troupe::schedule
