// What LowerTier is compared with: a list of blocks that is searched by brute force, without order, counts or index, and the stores of
// three ranks, which remember what was evicted and lose what fails. One test's; its thread.
#pragma once
#include "runtime/kv/lower_tier.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace troupe::kv::test {

inline constexpr std::size_t kRanks = 3;
inline constexpr Incarnation kTier = 5;
using Node = std::uint32_t;  // of a tree of chains: the parent of n is n / 2, that of 1 is none
inline constexpr Node kNodes = 255;

inline BlockKey key_of(Node node) { return node == 0 ? BlockKey{} : BlockKey{node, 0xabc}; }
inline Node node_of(const BlockKey& key) { return static_cast<Node>(key.high); }
inline std::vector<Node> path_to(Node node) {
  std::vector<Node> path;
  for (; node > 0; node /= 2) path.insert(path.begin(), node);
  return path;
}
inline std::vector<BlockKey> keys_of(const std::vector<Node>& nodes) {
  std::vector<BlockKey> keys;
  for (Node node : nodes) keys.push_back(key_of(node));
  return keys;
}

struct ModelBlock {
  Node node = 0;
  enum { kWriting, kStored, kForgotten } state = kWriting;
  bool cleared = false;  // while it was written
  bool parent_known = true;
  std::uint64_t last_use = 0;
  bool written = false;  // to the tier below
};
struct Wish {
  WantedBlock block;
  bool soon = false;
};
struct Holder {
  LockId lock;
  std::vector<BlockId> places;
};
struct StoreSlot {
  BlockKey key;
  std::uint64_t last_use = 0;
};
struct Pinned {
  Node node = 0;
  std::uint64_t until = 0;
};

/// The model, and the tier that must agree with it.
class LowerTierModel {
 protected:
  LowerTierModel(std::uint64_t seed, std::uint32_t blocks)
      : random_(seed),
        spec_{kTier, blocks, 6, 10},
        tier_below_(seed % 3 != 0),
        tier_(std::make_unique<LowerTier>(spec_)),
        stores_(kRanks, std::vector<StoreSlot>(blocks)) {
    tier_->begin_epoch(epoch_, tier_below_);
    tier_->adopt_inventory(epoch_, std::vector<std::vector<InventoryEntry>>(kRanks));
  }
  std::uint32_t below(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  /// Some branches are asked for more often than others.
  Node random_node() { return 1 + (below(2) == 0 ? below(kNodes) : below(24)); }
  std::uint32_t locks_on(BlockId place) const {
    std::uint32_t locks = 0;
    for (const Holder& holder : holders_)
      locks += static_cast<std::uint32_t>(std::count(holder.places.begin(), holder.places.end(), place));
    locks += static_cast<std::uint32_t>(
        std::count_if(asked_.begin(), asked_.end(), [&](const Wish& wish) { return wish.block.source == place; }));
    return locks;
  }
  void let_go(BlockId place) {
    if (blocks_.at(place).state == ModelBlock::kForgotten && locks_on(place) == 0) blocks_.erase(place);
  }
  std::uint32_t count(int state) const {
    return static_cast<std::uint32_t>(
        std::count_if(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b.second.state == state; }));
  }
  BlockId place_of(Node node, int state) const {
    for (const auto& [place, block] : blocks_)
      if (block.node == node && block.state == state && !block.cleared) return place;
    return kNone32;
  }
  bool pinned(Node node) const {
    return std::any_of(pins_.begin(), pins_.end(), [&](const auto& pin) {
      const auto path = path_to(pin.second.node);
      return std::find(path.begin(), path.end(), node) != path.end();
    });
  }
  void use(BlockId place) { blocks_.at(place).last_use = ++uses_; }
  void learn_parent(BlockId place) { blocks_.at(place).parent_known = true; }
  static void move_up(std::vector<Wish>& wishes, Node node) {
    const auto at = std::find_if(wishes.begin(), wishes.end(), [&](const Wish& wish) { return wish.block.key == key_of(node); });
    if (at == wishes.end() || at->soon) return;
    Wish wish = *at;
    wishes.erase(at);
    wish.soon = true;
    wishes.push_back(wish);
  }
  static std::vector<Wish>::iterator next_wish(std::vector<Wish>& wishes) {
    const auto soon = std::find_if(wishes.begin(), wishes.end(), [](const Wish& wish) { return wish.soon; });
    return soon == wishes.end() ? wishes.begin() : soon;
  }
  /// The least recently used of what nothing holds; kNone32 if there is none.
  BlockId victim(const std::vector<Wish>& chosen) const {
    BlockId oldest = kNone32;
    for (const auto& [place, block] : blocks_) {
      if (block.state != ModelBlock::kStored || locks_on(place) > 0 || pinned(block.node)) continue;
      const auto child_of = [node = block.node](Node other) { return other / 2 == node; };
      const bool has_child = std::any_of(blocks_.begin(), blocks_.end(),
                                         [&](const auto& b) {
                                           return b.second.state != ModelBlock::kForgotten && !b.second.cleared && b.second.parent_known &&
                                                  child_of(b.second.node);
                                         }) ||
                             std::any_of(chosen.begin(), chosen.end(), [&](const Wish& wish) { return child_of(node_of(wish.block.key)); });
      if (!has_child && (oldest == kNone32 || block.last_use < blocks_.at(oldest).last_use)) oldest = place;
    }
    return oldest;
  }
  /// What a rank's store has after a write: the new block, or nothing.
  bool write(std::size_t rank, BlockId place, const BlockKey& key) {
    const bool good = below(15) > 0;
    stores_[rank][place] = good ? StoreSlot{key, uses_} : StoreSlot{};
    return good;
  }
  void end_holder(Holder& holder) {
    while (!holder.places.empty()) {
      const BlockId place = holder.places.back();
      holder.places.pop_back();
      if (blocks_.at(place).state == ModelBlock::kStored) use(place);
      let_go(place);
    }
  }
  void to_write_down(BlockId place, bool soon = false) {
    const Node node = blocks_.at(place).node;
    if (!tier_below_) return;
    downs_.push_back({{key_of(node), key_of(blocks_.at(place).parent_known ? node / 2 : 0), place}, soon || pinned(node)});
  }
  void forget_wish(BlockId place) {
    std::erase_if(downs_, [&](const Wish& wish) { return wish.block.source == place; });
  }

  std::mt19937_64 random_;
  const LowerTierSpec spec_;
  const bool tier_below_;
  std::unique_ptr<LowerTier> tier_;
  LowerTierStats before_;  // of tiers that have died
  GroupEpoch epoch_{1};
  std::uint64_t now_ = 0, uses_ = 0, last_lock_ = 0, adopted_ = 0, dropped_ = 0, written_down_ = 0;
  BlockId last_source_ = 0;
  std::map<BlockId, ModelBlock> blocks_;  // by place; what is not here is free
  std::vector<Wish> wishes_;              // in order of arrival
  std::vector<Wish> downs_, asked_;       // of the tier below; sources are places here
  std::vector<Holder> holders_;
  std::map<std::uint64_t, Pinned> pins_;
  std::vector<std::vector<StoreSlot>> stores_;  // by rank and place
};

}  // namespace troupe::kv::test
