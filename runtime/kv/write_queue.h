// WriteQueue: blocks that wait to be written down, each once; those wanted soon go first, else in order of arrival. Bounded. Owned by a
// tier's index, on its thread.
#pragma once
#include "runtime/kv/tier_messages.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace troupe::kv {

class WriteQueue {
 public:
  explicit WriteQueue(std::uint32_t most) : most_(most) {}
  /// False: it is full. A block that waits already is kept as it is, and moved up if wanted soon.
  bool push(const WantedBlock& block, bool soon) {
    if (places_.contains(block.key)) {
      if (soon) move_up(block.key);
      return true;
    }
    if (waiting_.size() >= most_) return false;
    const Place place{!soon, ++last_};
    waiting_.emplace(place, block);
    places_.emplace(block.key, place);
    return true;
  }
  void move_up(const BlockKey& key) {
    const auto at = places_.find(key);
    if (at == places_.end() || !at->second.first) return;
    auto block = waiting_.extract(at->second);
    at->second = block.key() = Place{false, ++last_};
    waiting_.insert(std::move(block));
  }
  std::optional<WantedBlock> pop() {
    if (waiting_.empty()) return std::nullopt;
    const WantedBlock block = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    places_.erase(block.key);
    return block;
  }
  void erase(const BlockKey& key) {
    const auto at = places_.find(key);
    if (at == places_.end()) return;
    waiting_.erase(at->second);
    places_.erase(at);
  }
  bool next_is_soon() const { return !waiting_.empty() && !waiting_.begin()->first.first; }
  void clear() {
    waiting_.clear();
    places_.clear();
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(waiting_.size()); }

 private:
  using Place = std::pair<bool, std::uint64_t>;  // not soon, arrival
  std::uint32_t most_;
  std::uint64_t last_ = 0;
  std::map<Place, WantedBlock> waiting_;
  std::unordered_map<BlockKey, Place> places_;
};

}  // namespace troupe::kv
