// PinTable: which blocks clients want kept, and until when. A pin names a path of keys from the root; whether its blocks are there is the
// tier's to know. Paths share their starts, so each key counts the pins that end at it and the pinned keys that follow it; that is all
// the memory a pin takes. Knows no clock: time is the caller's. Owned by a tier's index, on its thread.
// Invariant: at most `most_blocks` keys and kMostPins pins; a key is pinned until the last pin through it ends.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"

#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe::kv {

struct PinName {
  Incarnation holder = 0;  // numbers of two gateways do not collide
  std::uint64_t number = 0;
  friend auto operator<=>(const PinName&, const PinName&) = default;
};

class PinTable {
 public:
  static constexpr std::size_t kMostPins = 65'536;
  struct Changed {
    std::vector<BlockKey> pinned, unpinned;
  };

  explicit PinTable(std::uint32_t most_blocks = 0) : most_blocks_(most_blocks) {}
  /// Takes the place of an earlier pin of that name, which stays as it was if this one is refused. An empty path pins nothing.
  Result<Changed> pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until);
  /// Both return the keys that no pin holds any more.
  std::vector<BlockKey> unpin(const PinName& name);
  std::vector<BlockKey> expire(std::uint64_t now);  // pins with until <= now
  bool contains(const BlockKey& key) const { return keys_.contains(key); }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(keys_.size()); }
  std::uint32_t most_blocks() const { return most_blocks_; }
  void check_invariants() const;

 private:
  struct Key {
    BlockKey parent;  // null: the first of its chain
    std::uint32_t uses = 0;
  };
  struct Pin {
    BlockKey last;
    std::uint64_t until = 0;
  };

  std::uint32_t most_blocks_;
  std::unordered_map<BlockKey, Key> keys_;
  std::set<std::pair<std::uint64_t, PinName>> ends_;
  struct NameHash {
    std::size_t operator()(const PinName& name) const { return std::hash<Hash128>{}({name.holder, name.number}); }
  };
  std::unordered_map<PinName, Pin, NameHash> pins_;
};

}  // namespace troupe::kv
