// LowerTier against a brute-force model (lower_tier_model.h). Random matches, write-downs from above and to below, failed moves, pins,
// clears, deaths of neighbours and restarts; after every operation invariants hold, and both agree on what is found, evicted, refused and
// left.
#include "messages/error.h"
#include "tests/runtime/kv/lower_tier_model.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <memory>
#include <random>

namespace troupe::kv {
namespace {
using namespace test;

class Comparison : LowerTierModel {
 public:
  Comparison(std::uint64_t seed, std::uint32_t blocks) : LowerTierModel(seed, blocks) {}

  void step() {
    ++now_;
    const std::uint32_t dice = below(1000);
    if (dice < 220)
      match();
    else if (dice < 380)
      release();
    else if (dice < 540)
      want();
    else if (dice < 660)
      start_writes();
    else if (dice < 770)
      finish_writes();
    else if (dice < 800)
      finish_load();
    else if (dice < 860)
      write_down();
    else if (dice < 920)
      end_write_downs();
    else if (dice < 923)
      lose_neighbour();
    else if (dice < 970)
      pin();
    else if (dice < 990)
      expire();
    else if (dice < 992)
      clear();
    else
      restart();
    compare();
  }
  void finish() {
    while (!holders_.empty()) release();
    while (count(ModelBlock::kWriting) > 0) finish_writes();
    while (!asked_.empty()) end_write_downs();
    now_ += 1000;
    expire();
    compare();
    const LowerTierStats stats = tier_->stats();
    CHECK(stats.locked + stats.writing + stats.pinned_keys == 0);
    CHECK(stats.free + stats.stored == stats.total);
    CHECK(this->stats().dropped_blocks == dropped_);
  }
  LowerTierStats stats() const {
    LowerTierStats sum = before_;
    const LowerTierStats now = tier_->stats();
    sum.hit_blocks += now.hit_blocks;
    sum.evicted_blocks += now.evicted_blocks;
    sum.failed_loads += now.failed_loads;
    sum.failed_writes += now.failed_writes;
    sum.dropped_blocks += now.dropped_blocks;
    sum.refused_blocks += now.refused_blocks;
    return sum;
  }
  std::uint64_t adopted() const { return adopted_; }
  std::uint64_t written_down() const { return written_down_; }

 private:
  void match() {
    auto nodes = path_to(random_node());
    const std::uint32_t first = below(3) == 0 ? below(nodes.size()) : 0;
    nodes.erase(nodes.begin(), nodes.begin() + first);
    Match request;
    request.epoch = epoch_;
    request.lock = LockId{++last_lock_};
    request.first_block = first;
    request.keys = keys_of(nodes);
    const std::uint32_t most_blocks = below(4) == 0 ? below(8) : 100;
    request.max_tokens = most_blocks * kBlockTokens + below(kBlockTokens);
    Holder holder{request.lock, tier_->match(request)};

    std::vector<BlockId> expected;
    for (std::size_t i = 0; i < nodes.size() && first + i < most_blocks; ++i) {
      const BlockId place = place_of(nodes[i], ModelBlock::kStored);
      if (place == kNone32) break;
      expected.push_back(place);
      if (i > 0) learn_parent(place);
      use(place);
      for (auto& store : stores_) {  // a load may follow
        REQUIRE(store[place].key == key_of(nodes[i]));
        store[place].last_use = uses_;
      }
    }
    REQUIRE(holder.places == expected);
    if (!expected.empty()) holders_.push_back(holder);
    if (holders_.size() > 6) release();
  }

  void release() {
    if (holders_.empty()) return;
    const auto at = holders_.begin() + below(holders_.size());
    tier_->release({epoch_, {at->lock}, {}});
    end_holder(*at);
    holders_.erase(at);
  }

  void want() {
    auto nodes = path_to(random_node());
    nodes.erase(nodes.begin(), nodes.begin() + below(nodes.size()));
    WriteDownWanted request{epoch_, {}, below(4) == 0};
    std::vector<BlockKey> here, refused;
    for (Node node : nodes) {
      const WantedBlock block{key_of(node), key_of(node / 2), ++last_source_};
      request.blocks.push_back(block);
      const BlockId stored = place_of(node, ModelBlock::kStored);
      const auto waits = std::find_if(wishes_.begin(), wishes_.end(), [&](const Wish& wish) { return wish.block.key == block.key; });
      const bool soon = request.soon || pinned(node);
      if (place_of(node, ModelBlock::kWriting) != kNone32) continue;
      if (stored != kNone32) {
        here.push_back(block.key);
        learn_parent(stored);
        use(stored);
      } else if (waits != wishes_.end()) {
        if (soon) move_up(wishes_, node);
      } else if (wishes_.size() >= spec_.most_waiting) {
        refused.push_back(block.key);
      } else {
        wishes_.push_back({block, soon});
      }
    }
    const WrittenDown answer = tier_->want(request);
    REQUIRE(answer.keys == here);
    REQUIRE(answer.failed == refused);
  }

  void start_writes() {
    std::vector<Wish> chosen;
    std::vector<BlockKey> here;
    while (count(ModelBlock::kWriting) + chosen.size() < spec_.most_writing && !wishes_.empty()) {
      const auto next = next_wish(wishes_);
      const Wish wish = *next;
      wishes_.erase(next);
      const BlockId stored = place_of(node_of(wish.block.key), ModelBlock::kStored);
      if (stored == kNone32) {
        chosen.push_back(wish);
      } else {
        here.push_back(wish.block.key);
        learn_parent(stored);
        use(stored);
      }
    }
    while (spec_.blocks - blocks_.size() < chosen.size()) {
      const BlockId place = victim(chosen);
      if (place == kNone32) break;
      dropped_ += blocks_.at(place).written ? 1 : 0;
      forget_wish(place);
      blocks_.erase(place);
    }
    const std::size_t room = std::min<std::size_t>(spec_.blocks - blocks_.size(), chosen.size());
    const WritesStarted started = tier_->start_writes();
    REQUIRE(started.answered.keys == here);
    REQUIRE(started.writes.size() == room);
    REQUIRE(started.answered.failed.size() == chosen.size() - room);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (i >= room) {
        REQUIRE(started.answered.failed[i - room] == chosen[i].block.key);
        continue;
      }
      const TierWrite& write = started.writes[i];
      REQUIRE(write.key == chosen[i].block.key);
      REQUIRE(write.source == chosen[i].block.source);
      REQUIRE(write.place < spec_.blocks);
      REQUIRE(blocks_.emplace(write.place, ModelBlock{node_of(write.key)}).second);  // it was free
    }
  }

  void finish_writes() {
    TierMovesFinished moves{epoch_, kTier, {}, {}};
    std::vector<BlockKey> good, bad;
    for (auto at = blocks_.begin(); at != blocks_.end();) {
      const auto next = std::next(at);
      if (at->second.state == ModelBlock::kWriting && below(2) == 0) {
        const BlockId place = at->first;
        const BlockKey key = key_of(at->second.node);
        bool all = true;
        for (std::size_t rank = 0; rank < kRanks; ++rank)
          if (!write(rank, place, key)) all = false;
        if (!all) moves.failed.push_back(static_cast<std::uint32_t>(moves.blocks.size()));
        moves.blocks.push_back({key, place});
        if (all && !at->second.cleared) {
          good.push_back(key);
          at->second.state = ModelBlock::kStored;
          use(place);
          to_write_down(place);
        } else {
          bad.push_back(key);
          blocks_.erase(at);
        }
      }
      at = next;
    }
    auto stale = moves;
    stale.tier = kTier + 1;
    REQUIRE(tier_->finish_writes(stale).keys.empty());
    const WrittenDown answer = tier_->finish_writes(moves);
    REQUIRE(answer.keys == good);
    REQUIRE(answer.failed == bad);
  }

  void finish_load() {
    if (holders_.empty()) return;
    const auto holder = holders_.begin() + below(holders_.size());
    LoadFinished load{epoch_, holder->lock, {}};
    for (BlockId place : holder->places) {
      ModelBlock& block = blocks_.at(place);
      if (below(3) > 0) continue;
      load.failed.push_back(key_of(block.node));
      if (block.state != ModelBlock::kStored) continue;  // forgotten before; if it came again, then elsewhere
      stores_[below(kRanks)][place] = {};
      block.state = ModelBlock::kForgotten;
      forget_wish(place);
    }
    tier_->finish_load(load);
    end_holder(*holder);
    holders_.erase(holder);
  }

  // Towards the tier below.
  void write_down() {
    const std::size_t most = std::max<std::size_t>(1, spec_.blocks / 16);
    std::vector<Wish> expected;
    std::optional<bool> soon;
    while (asked_.size() < most && !downs_.empty()) {
      const auto next = next_wish(downs_);
      if (soon.value_or(next->soon) != next->soon) break;
      soon = next->soon;
      const Wish wish = *next;
      downs_.erase(next);
      if (std::any_of(asked_.begin(), asked_.end(), [&](const Wish& asked) { return asked.block.key == wish.block.key; })) continue;
      expected.push_back(wish);
      asked_.push_back(wish);
    }
    const WriteDownWanted wanted = tier_->next_write_downs();
    REQUIRE(wanted.tier == kTier);
    REQUIRE(wanted.blocks.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      REQUIRE(wanted.soon == expected[i].soon);
      REQUIRE(wanted.blocks[i].key == expected[i].block.key);
      REQUIRE(wanted.blocks[i].parent == expected[i].block.parent);
      REQUIRE(wanted.blocks[i].source == expected[i].block.source);
    }
  }
  void end_write_downs() {
    if (asked_.empty()) return;
    const auto at = asked_.begin() + below(asked_.size());
    const Wish wish = *at;
    asked_.erase(at);
    const bool good = below(4) > 0;
    blocks_.at(wish.block.source).written = good;
    let_go(wish.block.source);
    const std::vector<BlockKey> key{wish.block.key};
    tier_->written_down({GroupEpoch{epoch_.value - 1}, key, {}});  // of another epoch: nothing
    tier_->written_down({epoch_, good ? key : std::vector<BlockKey>{}, good ? std::vector<BlockKey>{} : key});
    written_down_ += good ? 1 : 0;
  }
  void lose_neighbour() {
    if (below(2) == 0) {
      tier_->tier_below_lost(false);
      const auto asked = std::exchange(asked_, {});
      for (const Wish& wish : asked) {
        // Asked for again, before the others; not what was forgotten. What was written anew since waits, in its new place, already.
        if (blocks_.at(wish.block.source).state == ModelBlock::kStored) downs_.push_back({wish.block, true});
        let_go(wish.block.source);
      }
    } else {
      tier_->holder_lost();
      wishes_.clear();
      for (Holder& holder : holders_) end_holder(holder);  // oldest first
      holders_.clear();
    }
  }

  void pin() {
    const std::uint64_t number = below(5);
    const Node node = random_node();
    const std::uint64_t until = now_ + below(300);
    auto wanted = pins_;
    wanted[100 + number] = {node, until};  // beside the one it replaces
    std::vector<Node> all;
    for (const auto& [name, pin] : wanted)
      for (Node at : path_to(pin.node)) all.push_back(at);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    const Status status = tier_->pin({1, number}, keys_of(path_to(node)), until);
    REQUIRE(status.ok() == (all.size() <= spec_.blocks / 2));
    if (!status.ok()) return;
    for (Node at : path_to(node))
      if (!pinned(at)) {
        move_up(wishes_, at);
        move_up(downs_, at);
      }
    pins_[number] = {node, until};
  }

  void expire() {
    if (below(3) == 0 && !pins_.empty()) {
      tier_->unpin({1, pins_.begin()->first});
      pins_.erase(pins_.begin());
    }
    tier_->expire(now_);
    std::erase_if(pins_, [&](const auto& pin) { return pin.second.until <= now_; });
  }

  void clear() {
    tier_->clear();
    for (auto at = blocks_.begin(); at != blocks_.end();) {
      const auto next = std::next(at);
      forget_wish(at->first);
      if (at->second.state == ModelBlock::kWriting)
        at->second.cleared = true;
      else if (locks_on(at->first) > 0)
        at->second.state = ModelBlock::kForgotten;
      else
        blocks_.erase(at);
      at = next;
    }
  }

  void restart() {
    // Some ranks had ended writes that nobody heard of.
    for (const auto& [place, block] : blocks_)
      if (block.state == ModelBlock::kWriting)
        for (std::size_t rank = 0; rank < kRanks; ++rank)
          if (below(2) == 0) write(rank, place, key_of(block.node));
    std::map<Node, bool> knew_parent;
    for (const auto& [place, block] : blocks_)
      if (block.state != ModelBlock::kForgotten && !block.cleared) knew_parent[block.node] = block.parent_known;
    holders_.clear();
    wishes_.clear();
    downs_.clear();
    asked_.clear();
    blocks_.clear();
    epoch_ = GroupEpoch{epoch_.value + 1};
    if (below(2) == 0) {  // the tier itself has died: pins and parents are forgotten
      before_ = stats();
      tier_ = std::make_unique<LowerTier>(spec_);
      pins_.clear();
      knew_parent.clear();
    }
    tier_->begin_epoch(epoch_, tier_below_);
    REQUIRE(tier_->start_writes().writes.empty());
    if (below(2) == 0) want();  // waits for the inventory

    std::vector<std::vector<InventoryEntry>> lists(kRanks);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      std::vector<std::pair<std::uint64_t, BlockId>> order;
      for (BlockId place = 0; place < spec_.blocks; ++place)
        if (stores_[rank][place].key) order.emplace_back(stores_[rank][place].last_use, place);
      std::sort(order.begin(), order.end());
      for (const auto& [last_use, place] : order)
        lists[rank].push_back({stores_[rank][place].key, place, static_cast<std::uint32_t>((uses_ - last_use) / 50)});
    }
    lists[0].push_back({key_of(1), spec_.blocks + below(5), 0});  // of a larger tier
    tier_->adopt_inventory(epoch_, lists);
    // Last used first; of two places of a key the later one stays.
    for (auto entry = lists[0].rbegin(); entry != lists[0].rend(); ++entry) {
      const auto same = [&](const auto& store) { return entry->block < spec_.blocks && store[entry->block].key == entry->key; };
      const Node node = node_of(entry->key);
      if (!std::all_of(stores_.begin(), stores_.end(), same) || place_of(node, ModelBlock::kStored) != kNone32) continue;
      const auto knew = knew_parent.find(node);
      const bool parent_known = knew != knew_parent.end() && knew->second;
      blocks_.emplace(entry->block, ModelBlock{node, ModelBlock::kStored, false, parent_known, stores_[0][entry->block].last_use});
      ++adopted_;
    }
    for (const auto& entry : lists[0])  // the tier below may lack them
      if (const auto at = blocks_.find(entry.block); at != blocks_.end() && key_of(at->second.node) == entry.key)
        to_write_down(entry.block);
  }

  void compare() {
    tier_->check_invariants();
    const LowerTierStats stats = tier_->stats();
    std::uint32_t locked = 0;
    for (const auto& [place, block] : blocks_) locked += locks_on(place) > 0 ? 1 : 0;
    REQUIRE(stats.free == spec_.blocks - blocks_.size());
    REQUIRE(stats.stored == count(ModelBlock::kStored));
    REQUIRE(stats.writing == count(ModelBlock::kWriting));
    REQUIRE(stats.locked == locked);
    REQUIRE(stats.waiting == wishes_.size());
    REQUIRE(stats.unwritten == downs_.size() + asked_.size());
    REQUIRE(stats.pinned_keys <= spec_.blocks / 2);
  }
};

void compare(std::uint64_t operations, std::uint64_t first_seed) {
  std::uint64_t hits = 0, evictions = 0, lost = 0, refused = 0, adopted = 0, written_down = 0, dropped = 0;
  for (std::uint64_t run = 0; run < 20; ++run) {
    Comparison comparison(first_seed + run, 8 + 8 * static_cast<std::uint32_t>(run % 5));
    for (std::uint64_t i = 0; i < operations / 20; ++i) comparison.step();
    comparison.finish();
    const LowerTierStats stats = comparison.stats();
    hits += stats.hit_blocks;
    evictions += stats.evicted_blocks;
    lost += stats.failed_loads + stats.failed_writes;
    dropped += stats.dropped_blocks;
    written_down += comparison.written_down();
    refused += stats.refused_blocks;
    adopted += comparison.adopted();
  }
  CHECK(hits > operations / 10);  // the load did find things,
  CHECK(evictions > operations / 50);
  CHECK(refused > operations / 200);  // did not fit,
  CHECK(lost > operations / 50);
  CHECK(written_down > operations / 100);
  CHECK(dropped > operations / 1000);
  CHECK(adopted > operations / 50);  // and came through failures and restarts
}

}  // namespace

TEST_CASE("a lower tier equals a brute-force model") { compare(20000, 1); }
TEST_CASE("a lower tier equals a brute-force model, at length", "[.slow]") { compare(200000, 1000); }

}  // namespace troupe::kv
