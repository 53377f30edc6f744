#include "runtime/text/merge_table.h"

#include <queue>

namespace troupe::text {
namespace {

constexpr std::uint32_t kNone = kNone32;
std::uint64_t pair_key(TokenId left, TokenId right) { return std::uint64_t{left} << 32 | right; }

/// A symbol of the word, in a doubly linked list laid over an array.
struct Node {
  TokenId id;
  std::uint32_t before, after;
};
/// A possible merge of the node at `position` with its successor. Stale once either symbol has changed.
struct Candidate {
  std::uint32_t rank, position;
  TokenId left, right, merged;
  bool operator<(const Candidate& other) const {  // priority_queue pops the greatest
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

void MergeTable::add(TokenId left, TokenId right, TokenId merged) {
  merges_.try_emplace(pair_key(left, right), Merge{static_cast<std::uint32_t>(merges_.size()), merged});
}

const MergeTable::Merge* MergeTable::find(TokenId left, TokenId right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void MergeTable::merge(std::vector<TokenId>& symbols) const {
  if (symbols.size() < 2) return;
  std::vector<Node> nodes(symbols.size());
  for (std::uint32_t i = 0; i < nodes.size(); ++i) nodes[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 < nodes.size() ? i + 1 : kNone};

  std::priority_queue<Candidate> candidates;
  const auto consider = [&](std::uint32_t position) {
    if (position == kNone || nodes[position].after == kNone) return;
    const TokenId left = nodes[position].id, right = nodes[nodes[position].after].id;
    if (const Merge* merge = find(left, right)) candidates.push({merge->rank, position, left, right, merge->merged});
  };
  for (std::uint32_t i = 0; i + 1 < nodes.size(); ++i) consider(i);

  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Node& left = nodes[best.position];
    if (left.id != best.left || left.after == kNone || nodes[left.after].id != best.right) continue;  // stale
    Node& right = nodes[left.after];
    left.id = best.merged;
    right.id = kNone;  // dead: no candidate names it any more
    left.after = right.after;
    if (left.after != kNone) nodes[left.after].before = best.position;
    consider(left.before);
    consider(best.position);
  }

  symbols.clear();
  for (std::uint32_t i = 0; i != kNone; i = nodes[i].after) symbols.push_back(nodes[i].id);
}

}  // namespace troupe::text
