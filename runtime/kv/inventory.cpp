#include "runtime/kv/inventory.h"

#include <utility>

namespace troupe::kv {

void Inventory::add(const InventoryReported& page) {
  if (page.epoch < epoch_) return;
  if (page.epoch > epoch_) ranks_.clear();
  epoch_ = page.epoch;
  Rank& rank = ranks_[page.rank];
  if (page.page == 0) rank = Rank{0, page.pages, {}};
  if (page.page != rank.next_page || page.pages != rank.pages) return;  // its beginning went to somebody else
  rank.entries.insert(rank.entries.end(), page.entries.begin(), page.entries.end());
  ++rank.next_page;
}

bool Inventory::whole(std::size_t ranks) const {
  std::size_t done = 0;
  for (const auto& [index, rank] : ranks_) done += index < ranks && rank.pages > 0 && rank.next_page == rank.pages ? 1 : 0;
  return ranks > 0 && done == ranks;
}

std::vector<std::vector<InventoryEntry>> Inventory::take() {
  std::vector<std::vector<InventoryEntry>> lists;
  for (auto& [index, rank] : std::exchange(ranks_, {})) lists.push_back(std::move(rank.entries));
  return lists;
}

}  // namespace troupe::kv
