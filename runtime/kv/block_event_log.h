// BlockEventLog: the changes of all tiers of a replica in one order, numbered 1, 2, 3 ... without gaps, the last of them kept for replay;
// and what the tiers hold after the last one, for readers that come too late for that. Owned by the device tier's actor, on its thread.
// Invariant: who applies a snapshot, or begins with nothing before event 1, and then applies every later event once, has the tiers' keys.
#pragma once
#include "runtime/kv/block_changes.h"

#include <array>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace troupe::kv {

class BlockEventLog {
 public:
  static constexpr std::size_t kKept = 65'536;

  explicit BlockEventLog(std::size_t kept = kKept) : kept_(kept) {}
  void add(const BlockChange& change);
  /// Number of the last event; 0 before the first.
  std::uint64_t last() const { return last_; }
  /// The events behind number `after`, at most `most` of them. None: no longer kept, or not numbered yet; then a snapshot() helps.
  std::optional<std::vector<BlockChange>> after(std::uint64_t number, std::size_t most) const;
  /// All there is after event last(), as stored events.
  std::vector<BlockChange> snapshot() const;

 private:
  using Blocks = std::unordered_map<BlockKey, BlockKey>;  // with their parents
  Blocks& blocks_of(Tier tier) { return blocks_[static_cast<std::size_t>(tier)]; }

  std::size_t kept_;
  std::uint64_t last_ = 0;
  std::deque<BlockChange> events_;  // the newest, up to number last_
  std::array<Blocks, 3> blocks_;    // by tier
};

}  // namespace troupe::kv
