// PrefixTree: radix tree of cached blocks. A node is one block: 32 token ids and its chained key, or a partial tail leaf (1...31 ids, no
// key). One root a key domain, so that token comparisons never cross domains. Counted locks; unlocked leaves are evicted, partial
// tails first, then least recently used (RadixAttention, arXiv 2312.07104, section 3, on blocks instead of tokens).
// Owned by DeviceTier, on its thread. Invariant: a node with one in its subtree that is locked or kept ("pinned") is never evicted.
#pragma once
#include "messages/ids.h"

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace troupe::kv {

struct TreeNode {
  TreeNode* parent = nullptr;  // null: a root
  Hash128 domain;              // of a root only
  BlockKey key;                // null: a root or a partial tail
  BlockId block = 0;
  std::vector<TokenId> tokens;  // kBlockTokens, or fewer in a partial tail
  std::uint32_t locks = 0;
  std::uint32_t pinned_children = 0;
  std::uint32_t child_count = 0;
  std::uint64_t last_use = 0;
  bool written = false;                                                          // to the tier below
  bool kept = false;                                                             // a client's pin
  bool listed = false;                                                           // in the eviction order
  std::unordered_map<TokenId, std::vector<std::unique_ptr<TreeNode>>> children;  // by their first token

  bool root() const { return parent == nullptr; }
  bool pinned() const { return locks > 0 || kept || pinned_children > 0; }
  bool full() const { return tokens.size() == kBlockTokens; }
};

class PrefixTree {
 public:
  struct Found {
    std::vector<TreeNode*> chain;  // full blocks from the start
    TreeNode* tail = nullptr;      // its first tail_tokens ids go on
    std::uint16_t tail_tokens = 0;
  };

  void clear();
  /// Longest cached prefix, at most `max_tokens`. Tokens are compared wherever given: a key alone is never trusted to mean its tokens.
  Found match(const Hash128& domain, std::span<const BlockKey> keys, std::span<const TokenId> tokens, std::uint32_t max_tokens) const;
  TreeNode* find(const BlockKey& key) const;
  TreeNode& root(const Hash128& domain);
  /// Null key: a partial tail. Partial unlocked siblings that `tokens` extends are removed; their blocks are appended to `removed`.
  TreeNode& insert(TreeNode& parent, const BlockKey& key, BlockId block, std::span<const TokenId> tokens, std::vector<BlockId>& removed);
  /// A child of `parent` that begins with `tokens`; null if none.
  TreeNode* find_extension(const TreeNode& parent, std::span<const TokenId> tokens) const;
  void lock(TreeNode& node);
  void unlock(TreeNode& node);  // both count as a use
  void hold(TreeNode& node);    // a lock that is no use
  void let_go(TreeNode& node);
  void touch(TreeNode& node);
  void keep(TreeNode& node, bool kept);  // holds it like a lock; no use
  struct Evicted {
    BlockId block;
    BlockKey key;
    bool written;
  };
  /// Removes the next node in eviction order. Precondition: evictable() > 0.
  Evicted evict();
  std::uint32_t size() const { return size_; }
  std::uint32_t locked() const { return locked_; }
  std::uint32_t evictable() const { return size_ - pinned_; }
  /// The same first block of tokens under another domain.
  bool in_other_domain(const Hash128& domain, std::span<const TokenId> first_block) const;
  std::vector<const TreeNode*> nodes() const;  // for check_invariants
  void check_invariants() const;

 private:
  using EvictionOrder = std::tuple<bool, std::uint64_t, BlockId>;  // full, last use, block
  static EvictionOrder order_of(const TreeNode& node) { return {node.full(), node.last_use, node.block}; }
  void list(TreeNode& node);
  void unlist(TreeNode& node);
  void refresh(TreeNode& node);  // lists or unlists it
  void pin_ancestors(TreeNode& node);
  void unpin_ancestors(TreeNode& node);
  Evicted remove(TreeNode& node);

  std::unordered_map<Hash128, std::unique_ptr<TreeNode>> roots_;
  std::unordered_map<BlockKey, TreeNode*> by_key_;
  std::set<EvictionOrder> order_;
  std::unordered_map<BlockId, TreeNode*> listed_;
  std::uint64_t clock_ = 0;
  std::uint32_t size_ = 0, locked_ = 0, pinned_ = 0;
};

}  // namespace troupe::kv
