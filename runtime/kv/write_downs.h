// WriteDowns: the upper side of writing down: which blocks of a tier wait until the tier below is asked for them, and which have been asked
// for and wait for their answer. Pinned ones first, else in order of publication; what is evicted before its turn is passed over. Few are
// asked for at a time, since the owner holds each until its answer. Owned by a tier's index, on its thread.
// Invariant: a key waits at most once, and is asked for at most once at a time; without a tier below there is none of either.
#pragma once
#include "runtime/kv/write_queue.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace troupe::kv {

class WriteDowns {
 public:
  static constexpr std::uint32_t kMostAsked = 64;

  /// Forgets all. `blocks` of its tier bound what waits; 0: there is no tier below.
  void reset(std::uint32_t blocks);
  bool tier_below() const { return blocks_ > 0; }
  void add(const WantedBlock& block, bool soon);
  void move_up(const BlockKey& key) { waiting_.move_up(key); }
  /// Evicted.
  void pass_over(const BlockKey& key) { waiting_.erase(key); }
  /// As many as are asked for at a time.
  std::uint32_t most_asked() const { return std::clamp(blocks_ / 16, 1U, kMostAsked); }
  /// What to ask for now, which is asked for from here on; empty where enough is. A parent comes before its children.
  std::vector<WantedBlock> take(bool& soon);
  /// The source of what was asked for under this key, which is no longer; nothing if it was not.
  std::optional<BlockId> answered(const BlockKey& key);
  /// The tier below has died: nothing is asked for any more.
  std::vector<WantedBlock> take_back();

  const std::vector<WantedBlock>& asked() const { return asked_; }
  std::uint32_t waiting() const { return waiting_.size(); }

 private:
  std::vector<WantedBlock>::const_iterator find(const BlockKey& key) const;  // in asked_

  std::uint32_t blocks_ = 0;
  WriteQueue waiting_{0};
  std::vector<WantedBlock> asked_;  // few; in the order of asking
};

}  // namespace troupe::kv
