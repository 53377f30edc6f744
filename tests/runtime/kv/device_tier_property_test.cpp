// DeviceTier against a model that knows no tree: a list of cached prefixes, searched by brute force. Random holders match, lease,
// publish, release and pin, and a tier below takes what is written down; after every operation invariants hold and both agree on what is
// matched, locked, pinned and left.
#include "messages/error.h"
#include "runtime/kv/block_key.h"
#include "runtime/kv/device_tier.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace troupe::kv {
namespace {

using Tokens = std::vector<TokenId>;
constexpr GroupEpoch kEpoch{1};

/// A cached block: all tokens from the start of its chain to its own end.
struct ModelBlock {
  std::uint64_t domain = 0;
  Tokens path;
  bool written = false;  // to the tier below
  bool full() const { return path.size() % kBlockTokens == 0; }
};

class Comparison {
 public:
  Comparison(std::uint64_t seed, std::uint32_t blocks) : random_(seed), tier_below_(seed % 3 != 0) {
    tier_.begin_epoch(kEpoch, blocks, tier_below_);
  }

  void step() {
    const std::uint32_t dice = below(125);
    ++now_;
    if (dice >= 124)
      lose_tier_below();
    else if (dice >= 115)
      written_down();
    else if (dice >= 105)
      write_down();
    else if (dice >= 103)
      expire();
    else if (dice >= 100)
      pin();
    else if (dice < 35)
      match();
    else if (dice < 55)
      lease();
    else if (dice < 80)
      publish();
    else
      release();
    tier_.check_invariants();
    compare();
  }
  void finish() {
    while (!holders_.empty()) release();
    give_back();
    while (!asked_.empty()) written_down();
    now_ += 1000;
    expire();
    compare();
    CHECK(tier_.stats().pinned_keys == 0);
    CHECK(tier_.stats().locked == 0);
    CHECK(tier_.stats().leased == 0);
    CHECK(tier_.stats().dropped_blocks == dropped_);
    CHECK(tier_.stats().lost_blocks == lost_);
    CHECK(tier_.stats().written_blocks == written_);
  }
  std::uint64_t hits() const { return tier_.stats().hit_tokens; }
  std::uint64_t evictions() const { return tier_.stats().evicted_blocks; }
  std::uint64_t dropped() const { return dropped_; }
  std::uint64_t lost() const { return lost_; }

 private:
  struct Holder {
    std::vector<LockId> locks;
    std::vector<BlockId> all_locked;
    std::vector<BlockId> shadows;
    std::uint64_t domain = 0;
    Tokens path;         // what it has written: full blocks only
    bool ended = false;  // it left a tail
  };

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  static Hash128 domain_of(std::uint64_t domain) { return {domain, 77}; }

  /// Few distinct tokens and shared starts, so that prefixes meet.
  Tokens random_tokens(std::size_t most) {
    Tokens tokens;
    const std::uint32_t stream = below(3);
    const std::size_t shared = below(static_cast<std::uint32_t>(most));
    for (std::size_t i = 0; i < shared; ++i) tokens.push_back(stream * 10 + static_cast<TokenId>(i * i % 7));
    for (std::uint32_t i = below(12); i > 0; --i) tokens.push_back(below(2));
    if (tokens.empty()) tokens.push_back(1);
    return tokens;
  }

  void match() {
    Match request;
    request.epoch = kEpoch;
    request.lock = LockId{++last_lock_};
    const std::uint64_t domain = 1 + below(2);
    request.tokens = random_tokens(150);
    request.keys = block_keys(domain_of(domain), request.tokens);
    request.max_tokens =
        below(3) == 0 ? below(static_cast<std::uint32_t>(request.tokens.size())) : static_cast<std::uint32_t>(request.tokens.size()) - 1;
    request.domain = domain_of(domain);
    const PrefixMatched found = tier_.match(request);

    const Tokens wanted(request.tokens.begin(), request.tokens.begin() + request.max_tokens);
    std::size_t best_full = 0, best = 0;
    for (const auto& [block, cached] : model_) {
      if (cached.domain != domain) continue;
      const std::size_t shared = common(wanted, cached.path);
      best_full = std::max(best_full, shared / kBlockTokens);
    }
    // Only a block that continues the matched run can be its tail.
    for (const auto& [block, cached] : model_) {
      const std::size_t before = (cached.path.size() - 1) / kBlockTokens;
      if (cached.domain == domain && before == best_full) best = std::max(best, common(wanted, cached.path));
    }
    best = std::max(best, best_full * kBlockTokens);
    REQUIRE(found.device_blocks.size() == best_full);
    REQUIRE(found.device_blocks.size() * kBlockTokens + found.tail_tokens == best);
    for (std::size_t i = 0; i < best_full; ++i) {
      const ModelBlock& cached = model_.at(found.device_blocks[i]);
      REQUIRE(cached.path == Tokens(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>((i + 1) * kBlockTokens)));
    }
    Holder holder;
    holder.domain = domain;
    holder.locks.push_back(found.lock);
    for (BlockId block : found.device_blocks) lock(holder, block);
    if (found.tail_tokens > 0) {
      REQUIRE(common(wanted, model_.at(found.tail_block).path) == best);
      lock(holder, found.tail_block);
      holder.locks.push_back(found.tail_lock);
    }
    holder.path.assign(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(best_full * kBlockTokens));
    holders_.push_back(std::move(holder));
    if (holders_.size() > 8) release();
  }

  void lease() {
    const std::uint32_t wanted = below(10);
    const BlocksLeased reply = tier_.lease({kEpoch, LeaseId{1}, wanted, true});
    std::uint32_t got = 0;
    for (const BlockRange& range : reply.ranges)
      for (BlockId block = range.first; block < range.first + range.count; ++block, ++got) {
        REQUIRE(lock_count_[block] == 0);
        REQUIRE(leased_.insert(block).second);
      }
    // Evicted blocks are the model's to forget; none of them may lie below another one that stays.
    const std::uint32_t unlocked = evictable();
    REQUIRE(got <= wanted);
    const DeviceTierStats stats = tier_.stats();
    std::vector<BlockId> gone;
    for (const auto& [block, cached] : model_)
      if (leased_.contains(block)) gone.push_back(block);
    REQUIRE(gone.size() <= unlocked);
    // The tier may evict only as many as it needed, and they are all leased out or free now.
    forget_evicted(gone);
    REQUIRE(model_.size() == stats.cached);
    if (got < wanted) REQUIRE((stats.free == 0 && evictable() == 0));
    if (leased_.size() > 20) give_back();
  }

  void publish() {
    if (holders_.empty() || leased_.empty()) return;
    Holder& holder = holders_[below(static_cast<std::uint32_t>(holders_.size()))];
    if (holder.ended) return;
    Tokens more = random_tokens(100);
    // Continue like the streams do where the path allows it, so that duplicates happen.
    if (below(2) == 0)
      for (std::size_t i = 0; i < more.size(); ++i) more[i] = static_cast<TokenId>((holder.path.size() + i) * (holder.path.size() + i) % 7);
    const std::size_t most_full = std::min<std::size_t>(more.size() / kBlockTokens, leased_.size());
    const bool tail = more.size() % kBlockTokens > 0 && most_full < leased_.size() && below(2) == 0;
    if (most_full == 0 && !tail) return;
    PublishBlocks request;
    request.epoch = kEpoch;
    request.lock = holder.locks.front();
    request.domain = domain_of(holder.domain);
    request.tail = tail ? static_cast<std::uint16_t>(more.size() - most_full * kBlockTokens) % kBlockTokens : 0;
    if (tail && request.tail == 0) return;
    Tokens path = holder.path;
    if (!path.empty()) request.parent = block_keys(domain_of(holder.domain), path).back();
    for (std::size_t i = 0; i < most_full + (tail ? 1 : 0); ++i) {
      const BlockId block = *leased_.begin();
      leased_.erase(leased_.begin());
      request.blocks.push_back(block);
      const std::size_t count = i < most_full ? kBlockTokens : request.tail;
      const auto from = more.begin() + static_cast<std::ptrdiff_t>(i * kBlockTokens);
      const bool parent_there = path.empty() || cached(holder.domain, path) != kNone32;
      Tokens extended = path;
      extended.insert(extended.end(), from, from + static_cast<std::ptrdiff_t>(count));
      request.tokens.insert(request.tokens.end(), from, from + static_cast<std::ptrdiff_t>(count));
      if (!parent_there || contained(holder.domain, extended)) {
        holder.shadows.push_back(block);
      } else {
        drop_contained_tails(holder.domain, extended);
        model_[block] = {holder.domain, extended};
        lock(holder, block);
        if (tier_below_ && model_.at(block).full()) downs_.push_back({block, kept(model_.at(block))});
      }
      path = extended;
    }
    if (most_full > 0) {
      path.resize(holder.path.size() + most_full * kBlockTokens);
      const auto keys = block_keys(domain_of(holder.domain), path);
      request.keys.assign(keys.end() - static_cast<std::ptrdiff_t>(most_full), keys.end());
      holder.path = path;
    }
    holder.ended = tail;
    tier_.publish(request);
  }

  void release() {
    if (holders_.empty()) return;
    const auto at = holders_.begin() + below(static_cast<std::uint32_t>(holders_.size()));
    tier_.release({kEpoch, at->locks, {}});
    for (BlockId block : at->all_locked) --lock_count_[block];
    holders_.erase(at);
  }

  void pin() {
    Tokens path;
    const std::uint64_t domain = 1 + below(2);
    if (!model_.empty() && below(3) > 0) {  // something that is there, else what may come
      const auto at = std::next(model_.begin(), below(static_cast<std::uint32_t>(model_.size())));
      path = at->second.path;
    } else {
      path = random_tokens(120);
    }
    path.resize(path.size() / kBlockTokens * kBlockTokens);
    const std::uint64_t number = below(4), until = now_ + below(200);
    std::set<std::pair<std::uint64_t, Tokens>> all;
    auto wanted = pins_;
    wanted[100 + number] = {domain, path, until};  // beside the one it replaces
    for (const auto& [name, pin] : wanted)
      for (std::size_t end = kBlockTokens; end <= pin.path.size(); end += kBlockTokens)
        all.emplace(pin.domain, Tokens(pin.path.begin(), pin.path.begin() + static_cast<std::ptrdiff_t>(end)));
    const Status status = tier_.pin({1, number}, block_keys(domain_of(domain), path), until);
    REQUIRE(status.ok() == (all.size() <= tier_.stats().total / 2));
    if (!status.ok()) return;
    for (std::size_t end = kBlockTokens; end <= path.size(); end += kBlockTokens) {
      const Tokens part(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end));
      if (!kept({domain, part})) move_up(cached(domain, part));
    }
    pins_[number] = {domain, path, until};
  }

  // Towards the tier below.
  struct Down {
    BlockId block = 0;
    bool soon = false;
  };
  void move_up(BlockId block) {
    const auto at = std::find_if(downs_.begin(), downs_.end(), [&](const Down& down) { return down.block == block; });
    if (at == downs_.end() || at->soon) return;
    downs_.erase(at);
    downs_.push_back({block, true});
  }
  void write_down() {
    const std::size_t most = std::max<std::size_t>(1, tier_.stats().total / 16);
    std::vector<Down> expected;
    while (asked_.size() < most && !downs_.empty()) {
      auto next = std::find_if(downs_.begin(), downs_.end(), [](const Down& down) { return down.soon; });
      if (next == downs_.end()) next = downs_.begin();
      if (!expected.empty() && next->soon != expected.front().soon) break;
      expected.push_back(*next);
      asked_.push_back(next->block);
      ++lock_count_[next->block];
      downs_.erase(next);
    }
    const WriteDownWanted wanted = tier_.next_write_downs();
    REQUIRE(wanted.blocks.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const ModelBlock& block = model_.at(expected[i].block);
      const auto keys = block_keys(domain_of(block.domain), block.path);
      REQUIRE(wanted.soon == expected[i].soon);
      REQUIRE(wanted.blocks[i].source == expected[i].block);
      REQUIRE(wanted.blocks[i].key == keys.back());
      REQUIRE(wanted.blocks[i].parent == (keys.size() == 1 ? BlockKey{} : keys[keys.size() - 2]));
    }
  }
  void written_down() {
    if (asked_.empty()) return;
    const auto at = asked_.begin() + below(static_cast<std::uint32_t>(asked_.size()));
    ModelBlock& block = model_.at(*at);  // it was locked
    const std::vector<BlockKey> key{block_keys(domain_of(block.domain), block.path).back()};
    block.written = below(4) > 0;
    written_ += block.written ? 1 : 0;
    --lock_count_[*at];
    asked_.erase(at);
    tier_.written_down({GroupEpoch{2}, key, {}});  // of another epoch: nothing
    tier_.written_down({kEpoch, block.written ? key : std::vector<BlockKey>{}, block.written ? std::vector<BlockKey>{} : key});
  }
  void lose_tier_below() {
    tier_.tier_below_lost(false);
    for (BlockId block : asked_) {
      --lock_count_[block];
      downs_.push_back({block, true});
    }
    asked_.clear();
  }

  void expire() {
    if (below(2) == 0) {
      const std::uint64_t number = below(4);
      tier_.unpin({1, number});
      pins_.erase(number);
    }
    tier_.expire(now_);
    std::erase_if(pins_, [&](const auto& pin) { return pin.second.until <= now_; });
  }

  void give_back() {
    ReleaseBlocks request;
    request.epoch = kEpoch;
    for (BlockId block : leased_) request.leased.push_back({block, 1});
    tier_.release(request);
    leased_.clear();
  }

  void lock(Holder& holder, BlockId block) {
    ++lock_count_[block];
    holder.all_locked.push_back(block);
  }

  static std::size_t common(const Tokens& a, const Tokens& b) {
    const std::size_t limit = std::min(a.size(), b.size());
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(limit), b.begin()).first - a.begin());
  }
  BlockId cached(std::uint64_t domain, const Tokens& path) const {
    for (const auto& [block, other] : model_)
      if (other.domain == domain && other.path == path) return block;
    return kNone32;
  }
  /// A full path is contained in itself alone, a partial one in every sibling that begins with it.
  bool contained(std::uint64_t domain, const Tokens& path) const {
    return std::any_of(model_.begin(), model_.end(), [&](const auto& entry) {
      const ModelBlock& other = entry.second;
      return other.domain == domain && (other.path.size() - 1) / kBlockTokens == (path.size() - 1) / kBlockTokens &&
             common(other.path, path) == path.size();
    });
  }
  void drop_contained_tails(std::uint64_t domain, const Tokens& path) {
    std::erase_if(model_, [&](const auto& entry) {
      const ModelBlock& other = entry.second;
      return !other.full() && other.domain == domain && lock_count_[entry.first] == 0 &&
             (other.path.size() - 1) / kBlockTokens == (path.size() - 1) / kBlockTokens && common(other.path, path) == other.path.size();
    });
  }
  bool kept(const ModelBlock& block) const {
    return block.full() && std::any_of(pins_.begin(), pins_.end(), [&](const auto& pin) {
             return pin.second.domain == block.domain && common(pin.second.path, block.path) == block.path.size();
           });
  }
  bool pinned(const ModelBlock& block) const {
    if (kept(block)) return true;  // what is below it in the path is pinned only with it
    return std::any_of(model_.begin(), model_.end(), [&](const auto& entry) {
      const auto locks = lock_count_.find(entry.first);
      return locks != lock_count_.end() && locks->second > 0 && entry.second.domain == block.domain &&
             common(entry.second.path, block.path) == block.path.size();
    });
  }
  std::uint32_t evictable() const {
    std::uint32_t count = 0;
    for (const auto& [block, cached_block] : model_) {
      const auto locks = lock_count_.find(block);
      const bool locked = locks != lock_count_.end() && locks->second > 0;
      // Tails have no descendants; a longer sibling that is locked does not pin them.
      if (!locked && (!cached_block.full() || !pinned(cached_block))) ++count;
    }
    return count;
  }
  void forget_evicted(const std::vector<BlockId>& gone) {
    for (BlockId block : gone) {
      const ModelBlock evicted = model_.at(block);
      REQUIRE(lock_count_[block] == 0);
      REQUIRE(!kept(evicted));
      model_.erase(block);
      std::erase_if(downs_, [&](const Down& down) { return down.block == block; });
      if (!evicted.full()) continue;
      if (tier_below_) ++(evicted.written ? dropped_ : lost_);
      for (const auto& [other, cached_block] : model_)
        if (std::find(gone.begin(), gone.end(), other) == gone.end() && cached_block.domain == evicted.domain)
          REQUIRE(common(cached_block.path, evicted.path) < evicted.path.size());
    }
  }
  void compare() {
    const DeviceTierStats stats = tier_.stats();
    std::uint32_t shadows = 0, locked = 0;
    for (const Holder& holder : holders_) shadows += static_cast<std::uint32_t>(holder.shadows.size());
    for (const auto& [block, count] : lock_count_) locked += count > 0 ? 1 : 0;
    REQUIRE(stats.cached == model_.size());
    REQUIRE(stats.locked == locked);
    REQUIRE(stats.unwritten == downs_.size() + asked_.size());
    REQUIRE(stats.leased == leased_.size() + shadows);
    REQUIRE(stats.free + stats.leased + stats.cached == stats.total);
    REQUIRE(tier_.lease({kEpoch, LeaseId{1}, 0, true}).evictable == stats.free + evictable());
  }

  struct Pin {
    std::uint64_t domain = 0;
    Tokens path;  // full blocks
    std::uint64_t until = 0;
  };

  std::mt19937_64 random_;
  std::uint64_t now_ = 0;
  std::map<std::uint64_t, Pin> pins_;
  const bool tier_below_;
  std::vector<Down> downs_;     // in order of publication
  std::vector<BlockId> asked_;  // locked
  std::uint64_t dropped_ = 0, lost_ = 0, written_ = 0;
  DeviceTier tier_;
  std::uint64_t last_lock_ = 0;
  std::vector<Holder> holders_;
  std::set<BlockId> leased_;
  std::map<BlockId, ModelBlock> model_;
  std::map<BlockId, int> lock_count_;
};

void compare(std::uint64_t operations, std::uint64_t first_seed) {
  std::uint64_t hits = 0, evictions = 0, dropped = 0, lost = 0;
  for (std::uint64_t run = 0; run < 20; ++run) {
    Comparison comparison(first_seed + run, 24 + 8 * static_cast<std::uint32_t>(run % 5));
    for (std::uint64_t i = 0; i < operations / 20; ++i) comparison.step();
    comparison.finish();
    hits += comparison.hits();
    evictions += comparison.evictions();
    dropped += comparison.dropped();
    lost += comparison.lost();
  }
  CHECK(hits > operations);            // the load did share prefixes,
  CHECK(evictions > operations / 20);  // and did not fit
  CHECK(dropped > operations / 100);
  CHECK(lost > operations / 100);
}

}  // namespace

TEST_CASE("the device tier equals a brute-force model") { compare(20000, 1); }
TEST_CASE("the device tier equals a brute-force model, at length", "[.slow]") { compare(100000, 1000); }

}  // namespace troupe::kv
