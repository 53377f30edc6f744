// Inventory: what the ranks of an epoch report of a tier, gathered from pages until all have told all. Owned by the tier's actor, on its
// thread. Invariant: pages of one epoch only, the newest heard of; a rank that begins again replaces what it told.
#pragma once
#include "runtime/kv/tier_messages.h"

#include <cstddef>
#include <map>
#include <vector>

namespace troupe::kv {

class Inventory {
 public:
  void add(const InventoryReported& page);
  GroupEpoch epoch() const { return epoch_; }
  bool whole(std::size_t ranks) const;
  /// By rank. Precondition: whole(). Forgets them.
  std::vector<std::vector<InventoryEntry>> take();

 private:
  struct Rank {
    std::uint32_t next_page = 0, pages = 0;
    std::vector<InventoryEntry> entries;
  };
  GroupEpoch epoch_;
  std::map<std::uint16_t, Rank> ranks_;
};

}  // namespace troupe::kv
