#include "runtime/kv/prefix_tree.h"

#include "messages/error.h"

#include <algorithm>

namespace troupe::kv {
namespace {
std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const std::size_t limit = std::min(a.size(), b.size());
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(limit), b.begin()).first - a.begin());
}
}  // namespace

void PrefixTree::clear() {
  roots_.clear();
  by_key_.clear();
  order_.clear();
  listed_.clear();
  size_ = locked_ = pinned_ = 0;
}

PrefixTree::Found PrefixTree::match(const Hash128& domain, std::span<const BlockKey> keys, std::span<const TokenId> tokens,
                                    std::uint32_t max_tokens) const {
  Found found;
  const auto root = roots_.find(domain);
  if (root == roots_.end()) return found;
  const TreeNode* at = root->second.get();
  std::size_t position = 0;
  for (const BlockKey& key : keys) {
    if (position + kBlockTokens > max_tokens) break;
    TreeNode* next = find(key);
    if (next == nullptr || next->parent != at) break;
    const auto known = tokens.subspan(std::min(position, tokens.size()));
    const std::size_t comparable = std::min<std::size_t>(known.size(), kBlockTokens);
    if (common_prefix(known, next->tokens) < comparable) break;  // a colliding key is a miss
    found.chain.push_back(next);
    at = next;
    position += kBlockTokens;
  }
  if (position >= tokens.size() || position >= max_tokens) return found;
  // The match may end inside a block: the child that shares most tokens.
  const auto rest = tokens.subspan(position, std::min<std::size_t>(tokens.size(), max_tokens) - position);
  const auto bucket = at->children.find(rest.front());
  if (bucket == at->children.end()) return found;
  for (const auto& child : bucket->second) {
    const std::size_t shared = std::min<std::size_t>(common_prefix(rest, child->tokens), kBlockTokens - 1);
    if (shared > found.tail_tokens) {
      found.tail = child.get();
      found.tail_tokens = static_cast<std::uint16_t>(shared);
    }
  }
  return found;
}

TreeNode* PrefixTree::find(const BlockKey& key) const {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : at->second;
}

TreeNode& PrefixTree::root(const Hash128& domain) {
  auto& root = roots_[domain];
  if (!root) {
    root = std::make_unique<TreeNode>();
    root->domain = domain;
  }
  return *root;
}

TreeNode* PrefixTree::find_extension(const TreeNode& parent, std::span<const TokenId> tokens) const {
  const auto bucket = parent.children.find(tokens.front());
  if (bucket == parent.children.end()) return nullptr;
  for (const auto& child : bucket->second)
    if (common_prefix(tokens, child->tokens) == tokens.size()) return child.get();
  return nullptr;
}

TreeNode& PrefixTree::insert(TreeNode& parent, const BlockKey& key, BlockId block, std::span<const TokenId> tokens,
                             std::vector<BlockId>& removed) {
  auto node = std::make_unique<TreeNode>();
  TreeNode& added = *node;
  added.parent = &parent;
  added.key = key;
  added.block = block;
  added.tokens.assign(tokens.begin(), tokens.end());
  added.last_use = ++clock_;
  parent.children[tokens.front()].push_back(std::move(node));
  ++parent.child_count;
  ++size_;
  if (key) by_key_.emplace(key, &added);
  refresh(parent);
  refresh(added);
  // A shorter tail that this block contains will never be the better match.
  std::vector<TreeNode*> redundant;
  for (const auto& child : parent.children[tokens.front()])
    if (!child->full() && child.get() != &added && child->locks == 0 && common_prefix(child->tokens, tokens) == child->tokens.size())
      redundant.push_back(child.get());
  for (TreeNode* shorter : redundant) removed.push_back(remove(*shorter).block);
  return added;
}

void PrefixTree::lock(TreeNode& node) {
  hold(node);
  touch(node);
}

void PrefixTree::unlock(TreeNode& node) {
  touch(node);
  let_go(node);
}

void PrefixTree::hold(TreeNode& node) {
  const bool was_pinned = node.pinned();
  if (node.locks++ == 0) ++locked_;
  if (!was_pinned) pin_ancestors(node);
  refresh(node);
}

void PrefixTree::let_go(TreeNode& node) {
  TROUPE_CHECK(node.locks > 0);
  if (--node.locks == 0) --locked_;
  if (!node.pinned()) unpin_ancestors(node);
  refresh(node);
}

void PrefixTree::touch(TreeNode& node) {
  const bool listed = node.listed;
  if (listed) unlist(node);
  node.last_use = ++clock_;
  if (listed) list(node);
}

void PrefixTree::keep(TreeNode& node, bool kept) {
  if (node.kept == kept) return;
  const bool was_pinned = node.pinned();
  node.kept = kept;
  if (!was_pinned) pin_ancestors(node);
  if (!node.pinned()) unpin_ancestors(node);
  refresh(node);
}

void PrefixTree::pin_ancestors(TreeNode& node) {
  ++pinned_;
  for (TreeNode* up = node.parent; up != nullptr; up = up->parent) {
    const bool was_pinned = up->pinned();
    ++up->pinned_children;
    if (was_pinned) return;
    if (!up->root()) ++pinned_;
  }
}

void PrefixTree::unpin_ancestors(TreeNode& node) {
  --pinned_;
  for (TreeNode* up = node.parent; up != nullptr; up = up->parent) {
    --up->pinned_children;
    if (up->pinned()) return;
    if (!up->root()) --pinned_;
  }
}

PrefixTree::Evicted PrefixTree::evict() {
  TROUPE_CHECK(!order_.empty());
  return remove(*listed_.at(std::get<BlockId>(*order_.begin())));
}

PrefixTree::Evicted PrefixTree::remove(TreeNode& node) {
  TROUPE_CHECK(!node.pinned() && node.child_count == 0);
  const Evicted gone{node.block, node.key, node.written};
  if (node.listed) unlist(node);
  if (node.key) by_key_.erase(node.key);
  TreeNode& parent = *node.parent;
  const auto bucket = parent.children.find(node.tokens.front());
  std::erase_if(bucket->second, [&](const auto& child) { return child.get() == &node; });  // destroys node
  if (bucket->second.empty()) parent.children.erase(bucket);
  --parent.child_count;
  --size_;
  if (parent.root()) {
    if (parent.child_count == 0) roots_.erase(Hash128(parent.domain));
  } else {
    refresh(parent);
  }
  return gone;
}

void PrefixTree::list(TreeNode& node) {
  order_.insert(order_of(node));
  listed_.emplace(node.block, &node);
  node.listed = true;
}

void PrefixTree::unlist(TreeNode& node) {
  order_.erase(order_of(node));
  listed_.erase(node.block);
  node.listed = false;
}

void PrefixTree::refresh(TreeNode& node) {
  const bool wanted = !node.root() && node.locks == 0 && !node.kept && node.child_count == 0;
  if (wanted && !node.listed) list(node);
  if (!wanted && node.listed) unlist(node);
}

bool PrefixTree::in_other_domain(const Hash128& domain, std::span<const TokenId> first_block) const {
  if (first_block.empty()) return false;
  for (const auto& [other, root] : roots_)
    if (other != domain && find_extension(*root, first_block) != nullptr) return true;
  return false;
}

std::vector<const TreeNode*> PrefixTree::nodes() const {
  std::vector<const TreeNode*> all;
  for (const auto& [domain, root] : roots_) all.push_back(root.get());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const auto& [token, bucket] : all[i]->children)
      for (const auto& child : bucket) all.push_back(child.get());
  std::erase_if(all, [](const TreeNode* node) { return node->root(); });
  return all;
}

void PrefixTree::check_invariants() const {
  const auto all = nodes();
  std::uint32_t locked = 0, pinned = 0, keyed = 0, listed = 0;
  for (const TreeNode* node : all) {
    std::uint32_t pinned_children = 0, children = 0;
    for (const auto& [token, bucket] : node->children)
      for (const auto& child : bucket) {
        TROUPE_CHECK(child->parent == node && child->tokens.front() == token);
        pinned_children += child->pinned() ? 1 : 0;
        ++children;
      }
    TROUPE_CHECK(pinned_children == node->pinned_children && children == node->child_count);
    TROUPE_CHECK(!node->tokens.empty() && node->tokens.size() <= kBlockTokens && node->full() == static_cast<bool>(node->key));
    TROUPE_CHECK(node->full() || children == 0);
    TROUPE_CHECK(node->listed == (node->locks == 0 && !node->kept && children == 0));
    if (node->listed) TROUPE_CHECK(order_.count(order_of(*node)) == 1 && listed_.at(node->block) == node);
    if (node->key) TROUPE_CHECK(find(node->key) == node);
    locked += node->locks > 0 ? 1 : 0;
    pinned += node->pinned() ? 1 : 0;
    keyed += node->key ? 1 : 0;
    listed += node->listed ? 1 : 0;
  }
  TROUPE_CHECK(all.size() == size_ && locked == locked_ && pinned == pinned_ && keyed == by_key_.size());
  TROUPE_CHECK(listed == order_.size() && listed == listed_.size());
  for (const auto& [domain, root] : roots_) TROUPE_CHECK(root->domain == domain);
}

}  // namespace troupe::kv
