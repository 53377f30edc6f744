#include "runtime/kv/device_tier.h"

#include "messages/error.h"
#include "runtime/kv/block_pool.h"
#include "runtime/kv/prefix_tree.h"

#include <algorithm>
#include <deque>
#include <span>
#include <unordered_map>
#include <unordered_set>

namespace troupe::kv {
namespace {

constexpr std::size_t kEvictedKeysKept = 65536;
constexpr std::uint64_t kTailLockBit = std::uint64_t{1} << 63;  // locks that the tier names itself; schedulers count from 1

/// Keys lately evicted, to tell "evicted" from "never seen". Bounded; the oldest are forgotten.
class EvictedKeys {
 public:
  void add(const BlockKey& key) {
    if (!known_.insert(key).second) return;
    order_.push_back(key);
    if (order_.size() > kEvictedKeysKept) {
      known_.erase(order_.front());
      order_.pop_front();
    }
  }
  bool contains(const BlockKey& key) const { return known_.contains(key); }
  void clear() {
    known_.clear();
    order_.clear();
  }

 private:
  std::unordered_set<BlockKey> known_;
  std::deque<BlockKey> order_;
};

/// What one lock holds: nodes of the tree, and blocks that could not enter it.
struct Lock {
  std::vector<TreeNode*> nodes;
  std::vector<BlockId> shadows;
};

}  // namespace

class DeviceTier::State {
 public:
  void begin_epoch(GroupEpoch epoch, std::uint32_t blocks, bool tier_below);
  PrefixMatched match(const Match& request);
  void join(PrefixMatched& answer, const PrefixMatched& below, const Match& asked, std::size_t prompt_tokens) const;
  BlocksLeased lease(const LeaseBlocks& request);
  void publish(const PublishBlocks& request);
  void release(const ReleaseBlocks& request);
  WriteDownWanted next_write_downs();
  void written_down(const WrittenDown& answer);
  void tier_below_lost(bool for_good);
  const WriteDowns& write_downs() const { return write_downs_; }
  Status pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until);
  std::uint32_t run_of(std::span<const BlockKey> path) const;
  void unpin(const PinName& name) { keep(pins_.unpin(name), false); }
  void expire(std::uint64_t now) { keep(pins_.expire(now), false); }
  void watch();
  std::vector<BlockChange> take_changes() { return changes_.take(); }
  std::span<const TokenId> tokens_of(const BlockKey& key) const;
  DeviceTierStats stats() const;
  void check_invariants() const;

 private:
  void release_lock(LockId id);
  void hold(TreeNode& node, LockId lock);
  void keep(const std::vector<BlockKey>& keys, bool kept);
  void keep_private(BlockId block, LockId lock);
  TreeNode* publish_block(TreeNode* parent, const BlockKey& key, BlockId block, std::span<const TokenId> tokens, LockId lock);
  void forget(const BlockKey& key, bool written);
  MissReason miss_reason(const Match& request, const PrefixTree::Found& found) const;

  GroupEpoch epoch_;
  BlockPool pool_;
  PrefixTree tree_;
  std::unordered_map<LockId, Lock> locks_;
  EvictedKeys evicted_;
  PinTable pins_;
  WriteDowns write_downs_;
  BlockChanges changes_;
  std::uint64_t tail_locks_ = 0;
  DeviceTierStats counters_;  // the counters only
};

void DeviceTier::State::begin_epoch(GroupEpoch epoch, std::uint32_t blocks, bool tier_below) {
  epoch_ = epoch;
  write_downs_.reset(tier_below ? blocks : 0);
  tree_.clear();
  changes_.cleared();
  locks_.clear();
  evicted_.clear();
  if (pool_.total() != blocks) pins_ = PinTable(blocks / 2);
  pool_.reset(blocks);
}

PrefixMatched DeviceTier::State::match(const Match& request) {
  PrefixMatched answer;
  answer.epoch = request.epoch;
  answer.lock = request.lock;
  if (request.epoch != epoch_) return answer;
  TROUPE_CHECK(request.lock && !locks_.contains(request.lock));
  const PrefixTree::Found found = tree_.match(request.domain, request.keys, request.tokens, request.max_tokens);
  for (TreeNode* node : found.chain) {
    hold(*node, request.lock);
    answer.device_blocks.push_back(node->block);
  }
  if (found.tail != nullptr) {
    answer.tail_block = found.tail->block;
    answer.tail_tokens = found.tail_tokens;
    answer.tail_lock = LockId{kTailLockBit | ++tail_locks_};
    hold(*found.tail, answer.tail_lock);
  }
  answer.miss = miss_reason(request, found);
  counters_.query_tokens += request.tokens.size();
  counters_.hit_tokens += found.chain.size() * kBlockTokens + found.tail_tokens;
  return answer;
}

MissReason DeviceTier::State::miss_reason(const Match& request, const PrefixTree::Found& found) const {
  const std::size_t matched = found.chain.size() * kBlockTokens + found.tail_tokens;
  if (matched >= request.max_tokens) return request.max_tokens + 1 < request.tokens.size() ? MissReason::kScoresWanted : MissReason::kNone;
  if (found.chain.size() < request.keys.size() && evicted_.contains(request.keys[found.chain.size()])) return MissReason::kEvicted;
  const auto first_block = std::span(request.tokens).first(std::min<std::size_t>(request.tokens.size(), kBlockTokens));
  if (matched == 0 && tree_.in_other_domain(request.domain, first_block)) return MissReason::kOtherDomain;
  return MissReason::kNeverSeen;
}

void DeviceTier::State::join(PrefixMatched& answer, const PrefixMatched& below, const Match& asked, std::size_t prompt_tokens) const {
  append_below(answer, below);
  const std::size_t found = answer.host_blocks.size() + answer.disk_blocks.size();
  if (found == 0) return;
  if (found < asked.keys.size())
    answer.miss = evicted_.contains(asked.keys[found]) ? MissReason::kEvicted : MissReason::kNeverSeen;
  else
    answer.miss = asked.max_tokens + 1 < prompt_tokens ? MissReason::kScoresWanted : MissReason::kNone;
}

BlocksLeased DeviceTier::State::lease(const LeaseBlocks& request) {
  BlocksLeased answer;
  answer.epoch = request.epoch;
  answer.lease = request.lease;
  if (request.epoch != epoch_) return answer;
  while (pool_.count(BlockState::kFree) < request.blocks && tree_.evictable() > 0) {
    const PrefixTree::Evicted gone = tree_.evict();
    pool_.change(gone.block, BlockState::kCached, BlockState::kFree);
    if (gone.key) forget(gone.key, gone.written);
    ++counters_.evicted_blocks;
  }
  answer.ranges = pool_.lease(request.blocks);
  answer.evictable = pool_.count(BlockState::kFree) + tree_.evictable();
  return answer;
}

void DeviceTier::State::forget(const BlockKey& key, bool written) {
  evicted_.add(key);
  changes_.removed(key);
  if (!write_downs_.tier_below()) return;
  write_downs_.pass_over(key);
  ++(written ? counters_.dropped_blocks : counters_.lost_blocks);
}

void DeviceTier::State::publish(const PublishBlocks& request) {
  if (request.epoch != epoch_) return;
  const std::size_t full = request.keys.size();
  TROUPE_CHECK(request.blocks.size() == full + (request.tail > 0 ? 1 : 0) && request.tail < kBlockTokens);
  TROUPE_CHECK(request.tokens.size() == full * kBlockTokens + request.tail);
  const std::span<const TokenId> tokens(request.tokens);
  TreeNode* at = nullptr;  // null: the parent is gone
  if (request.parent)
    at = tree_.find(request.parent);
  else if (!request.blocks.empty())
    at = &tree_.root(request.domain);
  for (std::size_t i = 0; i < full; ++i)
    at = publish_block(at, request.keys[i], request.blocks[i], tokens.subspan(i * kBlockTokens, kBlockTokens), request.lock);
  if (request.tail > 0) publish_block(at, BlockKey{}, request.blocks.back(), tokens.last(request.tail), request.lock);
}

/// Returns the node that now stands for these tokens; null if none does.
TreeNode* DeviceTier::State::publish_block(TreeNode* parent, const BlockKey& key, BlockId block, std::span<const TokenId> tokens,
                                           LockId lock) {
  TROUPE_CHECK(pool_.state(block) == BlockState::kLeased);
  TreeNode* existing = nullptr;
  if (parent != nullptr) existing = key ? tree_.find(key) : tree_.find_extension(*parent, tokens);
  if (parent == nullptr || existing != nullptr) {
    if (existing != nullptr) tree_.touch(*existing);
    keep_private(block, lock);
    return existing;
  }
  std::vector<BlockId> removed;
  pool_.change(block, BlockState::kLeased, BlockState::kCached);
  TreeNode& node = tree_.insert(*parent, key, block, tokens, removed);
  if (lock) hold(node, lock);
  if (key && pins_.contains(key)) tree_.keep(node, true);
  if (key) write_downs_.add({key, parent->key, block}, node.kept);
  if (key) changes_.stored(key, parent->key);
  for (BlockId shorter : removed) pool_.change(shorter, BlockState::kCached, BlockState::kFree);
  ++counters_.published_blocks;
  return &node;
}

void DeviceTier::State::keep_private(BlockId block, LockId lock) {
  if (!lock) return pool_.change(block, BlockState::kLeased, BlockState::kFree);
  pool_.change(block, BlockState::kLeased, BlockState::kShadow);
  locks_[lock].shadows.push_back(block);
}

WriteDownWanted DeviceTier::State::next_write_downs() {
  WriteDownWanted wanted;
  wanted.epoch = epoch_;
  wanted.blocks = write_downs_.take(wanted.soon);
  for (const WantedBlock& block : wanted.blocks) tree_.hold(*tree_.find(block.key));
  return wanted;
}

void DeviceTier::State::written_down(const WrittenDown& answer) {
  if (answer.epoch != epoch_) return;
  const auto end = [this](const BlockKey& key) -> TreeNode* {
    if (!write_downs_.answered(key)) return nullptr;
    TreeNode* node = tree_.find(key);  // it was held
    tree_.let_go(*node);
    return node;
  };
  for (const BlockKey& key : answer.keys)
    if (TreeNode* node = end(key)) {
      node->written = true;
      ++counters_.written_blocks;
    }
  for (const BlockKey& key : answer.failed)
    if (end(key) != nullptr) ++counters_.refused_blocks;
}

void DeviceTier::State::tier_below_lost(bool for_good) {
  for (const WantedBlock& block : write_downs_.take_back()) {
    tree_.let_go(*tree_.find(block.key));
    write_downs_.add(block, true);  // before those that have not been asked for
  }
  if (for_good) write_downs_.reset(0);
}

void DeviceTier::State::hold(TreeNode& node, LockId lock) {
  tree_.lock(node);
  locks_[lock].nodes.push_back(&node);
}

Status DeviceTier::State::pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until) {
  auto changed = pins_.pin(name, path, until);
  if (!changed) return changed.error();
  keep(changed->pinned, true);
  for (const BlockKey& key : changed->pinned) write_downs_.move_up(key);
  keep(changed->unpinned, false);
  return ok_status();
}

std::uint32_t DeviceTier::State::run_of(std::span<const BlockKey> path) const {
  std::uint32_t run = 0;
  while (run < path.size() && tree_.find(path[run]) != nullptr) ++run;
  return run;
}

void DeviceTier::State::watch() {
  changes_.watch();
  for (const TreeNode* node : tree_.nodes())
    if (node->key) changes_.stored(node->key, node->parent->key);
}

std::span<const TokenId> DeviceTier::State::tokens_of(const BlockKey& key) const {
  const TreeNode* node = tree_.find(key);
  return node == nullptr ? std::span<const TokenId>() : std::span<const TokenId>(node->tokens);
}

void DeviceTier::State::keep(const std::vector<BlockKey>& keys, bool kept) {
  for (const BlockKey& key : keys)
    if (TreeNode* node = tree_.find(key)) tree_.keep(*node, kept);
}

void DeviceTier::State::release(const ReleaseBlocks& request) {
  if (request.epoch != epoch_) return;
  for (LockId lock : request.locks) release_lock(lock);
  for (const BlockRange& range : request.leased)
    for (BlockId block = range.first; block < range.first + range.count; ++block)
      pool_.change(block, BlockState::kLeased, BlockState::kFree);
}

void DeviceTier::State::release_lock(LockId id) {
  const auto at = locks_.find(id);
  if (at == locks_.end()) return;  // it never held anything
  Lock& lock = at->second;
  // Deepest first: then only the last node of a chain has ancestors left to unpin.
  for (; !lock.nodes.empty(); lock.nodes.pop_back()) tree_.unlock(*lock.nodes.back());
  for (BlockId block : lock.shadows) pool_.change(block, BlockState::kShadow, BlockState::kFree);
  locks_.erase(at);
}

DeviceTierStats DeviceTier::State::stats() const {
  DeviceTierStats stats = counters_;
  stats.total = pool_.total();
  stats.free = pool_.count(BlockState::kFree);
  stats.leased = pool_.count(BlockState::kLeased) + pool_.count(BlockState::kShadow);
  stats.cached = tree_.size();
  stats.locked = tree_.locked();
  stats.pinned_keys = pins_.blocks();
  stats.unwritten = write_downs_.waiting() + static_cast<std::uint32_t>(write_downs_.asked().size());
  return stats;
}

void DeviceTier::State::check_invariants() const {
  pool_.check_invariants();
  tree_.check_invariants();
  pins_.check_invariants();
  std::unordered_map<const TreeNode*, std::uint32_t> held;
  std::uint32_t shadows = 0;
  for (const auto& [id, lock] : locks_) {
    for (const TreeNode* node : lock.nodes) ++held[node];
    for (BlockId block : lock.shadows) TROUPE_CHECK(pool_.state(block) == BlockState::kShadow);
    shadows += static_cast<std::uint32_t>(lock.shadows.size());
  }
  for (const WantedBlock& block : write_downs_.asked()) {
    const TreeNode* node = tree_.find(block.key);
    TROUPE_CHECK(node != nullptr && node->block == block.source);
    ++held[node];
  }
  TROUPE_CHECK(write_downs_.waiting() + write_downs_.asked().size() <= tree_.size());
  TROUPE_CHECK(shadows == pool_.count(BlockState::kShadow));
  TROUPE_CHECK(tree_.size() == pool_.count(BlockState::kCached));
  std::uint32_t held_nodes = 0;
  for (const TreeNode* node : tree_.nodes()) {
    TROUPE_CHECK(pool_.state(node->block) == BlockState::kCached);
    TROUPE_CHECK(node->kept == (node->key && pins_.contains(node->key)));
    const auto count = held.find(node);
    TROUPE_CHECK(node->locks == (count == held.end() ? 0 : count->second));
    held_nodes += count == held.end() ? 0 : 1;
  }
  TROUPE_CHECK(held_nodes == held.size());  // no lock on a node that is gone
}

DeviceTier::DeviceTier() : state_(std::make_unique<State>()) {}
DeviceTier::~DeviceTier() = default;
void DeviceTier::begin_epoch(GroupEpoch epoch, std::uint32_t blocks, bool tier_below) { state_->begin_epoch(epoch, blocks, tier_below); }
PrefixMatched DeviceTier::match(const Match& request) { return state_->match(request); }
void DeviceTier::join(PrefixMatched& answer, const PrefixMatched& below, const Match& asked, std::size_t prompt_tokens) const {
  state_->join(answer, below, asked, prompt_tokens);
}
BlocksLeased DeviceTier::lease(const LeaseBlocks& request) { return state_->lease(request); }
void DeviceTier::publish(const PublishBlocks& request) { state_->publish(request); }
void DeviceTier::release(const ReleaseBlocks& request) { state_->release(request); }
WriteDownWanted DeviceTier::next_write_downs() { return state_->next_write_downs(); }
const WriteDowns& DeviceTier::write_downs() const { return state_->write_downs(); }
void DeviceTier::written_down(const WrittenDown& answer) { state_->written_down(answer); }
void DeviceTier::tier_below_lost(bool for_good) { state_->tier_below_lost(for_good); }
Status DeviceTier::pin(const PinName& name, std::span<const BlockKey> path, std::uint64_t until) { return state_->pin(name, path, until); }
void DeviceTier::unpin(const PinName& name) { state_->unpin(name); }
std::uint32_t DeviceTier::run_of(std::span<const BlockKey> path) const { return state_->run_of(path); }
void DeviceTier::expire(std::uint64_t now) { state_->expire(now); }
void DeviceTier::watch() { state_->watch(); }
std::vector<BlockChange> DeviceTier::take_changes() { return state_->take_changes(); }
std::span<const TokenId> DeviceTier::tokens_of(const BlockKey& key) const { return state_->tokens_of(key); }
DeviceTierStats DeviceTier::stats() const { return state_->stats(); }
void DeviceTier::check_invariants() const { state_->check_invariants(); }

}  // namespace troupe::kv
