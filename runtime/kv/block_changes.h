// BlockChanges: what has changed in one tier since it was last asked: blocks stored, blocks removed, all of them forgotten. Notes nothing
// until somebody watches. Part of a tier's index, on its thread; the tier's actor takes the changes after each message, so that few wait.
// Invariant: who applies all that was taken has the keys that the tier has, in every moment in which nothing waits.
#pragma once
#include "messages/ids.h"

#include <utility>
#include <vector>

namespace troupe::kv {

struct BlockChange {
  enum class Kind : std::uint8_t { kStored, kRemoved, kCleared };
  Kind kind = Kind::kStored;
  Tier tier = Tier::kDevice;
  BlockKey key;     // null: all of the tier was forgotten
  BlockKey parent;  // of what was stored; null: first of a chain, or not known
  friend bool operator==(const BlockChange&, const BlockChange&) = default;
};

class BlockChanges {
 public:
  /// From now on changes are noted; what is there is for the caller to tell, as stored().
  void watch() {
    watched_ = true;
    cleared();
  }
  bool watched() const { return watched_; }
  void stored(const BlockKey& key, const BlockKey& parent) {
    if (watched_) changes_.push_back({BlockChange::Kind::kStored, {}, key, parent});
  }
  void removed(const BlockKey& key) {
    if (watched_) changes_.push_back({BlockChange::Kind::kRemoved, {}, key, {}});
  }
  void cleared() {
    changes_.clear();  // of what is forgotten
    if (watched_) changes_.push_back({BlockChange::Kind::kCleared, {}, {}, {}});
  }
  /// In order; the tier is for the caller to fill in.
  std::vector<BlockChange> take() { return std::exchange(changes_, {}); }

 private:
  bool watched_ = false;
  std::vector<BlockChange> changes_;
};

}  // namespace troupe::kv
