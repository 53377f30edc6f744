#include "messages/error.h"
#include "runtime/kv/block_key.h"
#include "runtime/kv/device_tier.h"

#include <catch2/catch.hpp>

#include <numeric>

namespace troupe::kv {
namespace {

constexpr Hash128 kDomain{3, 4}, kOther{5, 6};
constexpr GroupEpoch kEpoch{2};

std::vector<TokenId> numbers(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A tier with what its holder would say to it.
struct Holder {
  DeviceTier tier;
  std::uint64_t last_lock = 0;
  explicit Holder(std::uint32_t blocks) { tier.begin_epoch(kEpoch, blocks); }

  std::vector<BlockId> lease(std::uint32_t count) {
    std::vector<BlockId> blocks;
    for (const BlockRange& range : tier.lease({kEpoch, LeaseId{1}, count, true}).ranges)
      for (BlockId block = range.first; block < range.first + range.count; ++block) blocks.push_back(block);
    return blocks;
  }
  PrefixMatched match(const std::vector<TokenId>& tokens, std::uint32_t most = kNone32, const Hash128& domain = kDomain) {
    Match request;
    request.epoch = kEpoch;
    request.lock = LockId{++last_lock};
    request.keys = block_keys(domain, tokens);
    request.tokens = tokens;
    request.max_tokens = std::min<std::uint32_t>(most, static_cast<std::uint32_t>(tokens.size()));
    request.domain = domain;
    return tier.match(request);
  }
  /// Publishes all of `tokens` under a new lock, tail included.
  LockId publish(const std::vector<TokenId>& tokens, const Hash128& domain = kDomain) {
    PublishBlocks request;
    request.epoch = kEpoch;
    request.lock = LockId{++last_lock};
    request.keys = block_keys(domain, tokens);
    request.tail = static_cast<std::uint16_t>(tokens.size() % kBlockTokens);
    request.blocks = lease(static_cast<std::uint32_t>(request.keys.size() + (request.tail > 0 ? 1 : 0)));
    request.tokens = tokens;
    request.domain = domain;
    tier.publish(request);
    return request.lock;
  }
  void release(std::vector<LockId> locks) { tier.release({kEpoch, std::move(locks), {}}); }
  void release(const PrefixMatched& match) {
    release({match.lock});
    if (match.tail_tokens > 0) release({match.tail_lock});
  }
};

}  // namespace

TEST_CASE("a match covers full blocks, then part of one") {
  Holder holder(16);
  const auto tokens = numbers(0, 80);
  holder.release({holder.publish(tokens)});

  const auto whole = holder.match(numbers(0, 100));
  CHECK(whole.device_blocks.size() == 2);
  CHECK(whole.tail_tokens == 16);
  CHECK(whole.miss == MissReason::kNeverSeen);
  CHECK(holder.tier.stats().locked == 3);
  holder.release(whole);

  const auto limited = holder.match(tokens, 63);  // inside the second full block
  CHECK(limited.device_blocks.size() == 1);
  CHECK(limited.tail_tokens == 31);
  CHECK(limited.tail_block == whole.device_blocks[1]);
  CHECK(limited.miss == MissReason::kScoresWanted);
  holder.release(limited);

  auto forked = numbers(0, 50);
  forked[40] = 9999;
  const auto fork = holder.match(forked);
  CHECK(fork.device_blocks == std::vector<BlockId>{whole.device_blocks[0]});
  CHECK(fork.tail_tokens == 8);
  holder.release(fork);
  CHECK(holder.tier.stats().locked == 0);
  holder.tier.check_invariants();
}

TEST_CASE("short prompts match inside their first block, in their own domain only") {
  Holder holder(8);
  holder.release({holder.publish(numbers(0, 20))});
  const auto same = holder.match(numbers(0, 12), 11);
  CHECK(same.tail_tokens == 11);
  CHECK(same.miss == MissReason::kNone);
  const auto foreign = holder.match(numbers(0, 12), 11, kOther);
  CHECK(foreign.tail_tokens == 0);
  CHECK(foreign.tail_block == kNone32);
  CHECK(foreign.miss == MissReason::kOtherDomain);
}

TEST_CASE("keys alone are not trusted: their tokens must agree") {
  Holder holder(8);
  const auto tokens = numbers(0, 64);
  holder.release({holder.publish(tokens)});
  Match lie;
  lie.epoch = kEpoch;
  lie.lock = LockId{100};
  lie.keys = block_keys(kDomain, tokens);
  lie.tokens = numbers(500, 64);
  lie.max_tokens = 63;
  lie.domain = kDomain;
  CHECK(holder.tier.match(lie).device_blocks.empty());
}

TEST_CASE("R50: a prompt crafted against a weak hash finds nothing of another's") {
  Holder holder(16);
  const auto tokens = numbers(1000, 3 * kBlockTokens);
  holder.release({holder.publish(tokens)});
  for (const std::size_t at : {std::size_t{0}, std::size_t{5}, std::size_t{kBlockTokens - 1}}) {  // the last: across two blocks
    auto crafted = tokens;
    crafted[at] += 31;
    crafted[at + 1] -= 1;
    const auto match = holder.match(crafted);
    CHECK(match.device_blocks.empty());
    CHECK(match.tail_tokens == at);  // equal tokens before the first crafted one may be shared, none behind it
    holder.release(match);
  }
}

TEST_CASE("a key already there: the first block stays, the second is private until its lock ends") {
  Holder holder(8);
  const auto tokens = numbers(0, 32);
  const LockId first = holder.publish(tokens);
  const auto before = holder.match(tokens);
  const LockId second = holder.publish(tokens);
  CHECK(holder.tier.stats().cached == 1);
  CHECK(holder.tier.stats().leased == 1);
  holder.tier.check_invariants();
  const auto after = holder.match(tokens);
  CHECK(after.device_blocks == before.device_blocks);
  holder.release({second});
  CHECK(holder.tier.stats().leased == 0);
  holder.release({first, before.lock, after.lock});
  CHECK(holder.tier.stats().cached == 1);
  CHECK(holder.tier.stats().locked == 0);
}

TEST_CASE("a parent that is gone leaves its children private") {
  Holder holder(8);
  PublishBlocks orphan;
  orphan.epoch = kEpoch;
  orphan.lock = LockId{50};
  orphan.parent = BlockKey{1, 1};
  orphan.keys = {BlockKey{1, 2}};
  orphan.blocks = holder.lease(2);
  orphan.tail = 3;
  orphan.tokens = numbers(0, 35);
  holder.tier.publish(orphan);
  CHECK(holder.tier.stats().cached == 0);
  CHECK(holder.tier.stats().leased == 2);
  holder.release({orphan.lock});
  CHECK(holder.tier.stats().free == 8);
}

TEST_CASE("eviction takes tails first, then the least recently used leaf, never what is locked") {
  Holder holder(6);
  holder.release({holder.publish(numbers(0, 64))});     // blocks A0 A1
  holder.release({holder.publish(numbers(1000, 64))});  // blocks B0 B1
  holder.release({holder.publish(numbers(2000, 10))});  // a tail
  holder.release(holder.match(numbers(0, 64)));         // A is used again
  CHECK(holder.lease(2).size() == 2);                   // one free, then the tail
  CHECK(holder.match(numbers(2000, 12)).tail_tokens == 0);
  CHECK(holder.lease(1).size() == 1);  // B1: leaf, older than A1
  const auto b = holder.match(numbers(1000, 64), 63);
  CHECK(b.device_blocks.size() == 1);
  CHECK(b.miss == MissReason::kEvicted);
  CHECK(holder.lease(10).size() == 2);  // A1 and A0; B0 is locked
  CHECK(holder.tier.lease({kEpoch, LeaseId{9}, 0, true}).evictable == 0);
  holder.tier.check_invariants();
  holder.release(b);
  CHECK(holder.tier.lease({kEpoch, LeaseId{9}, 0, true}).evictable == 1);
}

TEST_CASE("a longer block replaces the tail that it contains") {
  Holder holder(8);
  holder.release({holder.publish(numbers(0, 10))});
  CHECK(holder.tier.stats().cached == 1);
  holder.release({holder.publish(numbers(0, 20))});
  CHECK(holder.tier.stats().cached == 1);
  holder.release({holder.publish(numbers(0, 15))});  // already contained
  CHECK(holder.tier.stats().cached == 1);
  holder.release({holder.publish(numbers(0, 32))});
  CHECK(holder.tier.stats().cached == 1);
  CHECK(holder.match(numbers(0, 40)).device_blocks.size() == 1);
  holder.tier.check_invariants();
}

TEST_CASE("a pinned path stays until its time, even through an epoch; half of the blocks can be pinned") {
  Holder holder(6);
  const auto kept = numbers(0, 64);
  const auto path = block_keys(kDomain, kept);
  REQUIRE(holder.tier.pin({1, 1}, path, 100));  // before it is there,
  holder.release({holder.publish(kept)});
  holder.release({holder.publish(numbers(1000, 64))});
  REQUIRE(holder.tier.pin({1, 2}, std::vector{block_keys(kDomain, numbers(1000, 32))}, 100));  // or after
  const auto refused = holder.tier.pin({1, 3}, block_keys(kDomain, numbers(2000, 32)), 100);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().client_text.find("limit of 3") != std::string::npos);
  CHECK(holder.lease(6).size() == 3);  // two free, one not pinned
  CHECK(holder.tier.lease({kEpoch, LeaseId{9}, 0, true}).evictable == 0);
  CHECK(holder.tier.stats().locked == 0);  // a pin is no lock
  holder.tier.check_invariants();
  holder.tier.expire(99);
  CHECK(holder.lease(1).empty());
  holder.tier.unpin({1, 2});
  CHECK(holder.lease(6).size() == 1);

  holder.tier.begin_epoch(kEpoch, 6);
  holder.release({holder.publish(kept)});
  CHECK(holder.lease(6).size() == 4);
  holder.tier.expire(100);
  CHECK(holder.lease(6).size() == 2);
  CHECK(holder.tier.stats().pinned_keys == 0);
  REQUIRE(holder.tier.pin({1, 1}, path, 200));
  holder.tier.begin_epoch(kEpoch, 2);  // another number: half of it is less than what was pinned
  CHECK(holder.tier.stats().pinned_keys == 0);
  holder.tier.check_invariants();
}

TEST_CASE("messages of another epoch are dropped") {
  Holder holder(8);
  const LockId lock = holder.publish(numbers(0, 40));
  holder.tier.begin_epoch(GroupEpoch{3}, 8);
  CHECK(holder.tier.stats().free == 8);
  holder.release({lock});
  CHECK(holder.match(numbers(0, 40)).device_blocks.empty());
  CHECK(holder.lease(4).empty());
  PublishBlocks stale;
  stale.epoch = kEpoch;
  stale.lock = LockId{9};
  stale.keys = {BlockKey{1, 1}};
  stale.blocks = {0};
  stale.tokens = numbers(0, 32);
  holder.tier.publish(stale);
  CHECK(holder.tier.stats().free == 8);
  holder.tier.check_invariants();
}

TEST_CASE("a holder that breaks the protocol is caught") {
  Holder holder(4);
  PublishBlocks unleased;
  unleased.epoch = kEpoch;
  unleased.lock = LockId{9};
  unleased.keys = {BlockKey{1, 1}};
  unleased.blocks = {2};
  unleased.tokens = numbers(0, 32);
  CHECK_THROWS_AS(holder.tier.publish(unleased), InvariantViolation);
  CHECK_THROWS_AS(holder.tier.release({kEpoch, {}, {{1, 1}}}), InvariantViolation);
}

TEST_CASE("what is published is written to a tier below, if there is one, while the device holds it") {
  Holder holder(32);
  holder.tier.begin_epoch(kEpoch, 32, true);
  const auto tokens = numbers(0, 80);  // two blocks and a tail, which stays here
  const auto keys = block_keys(kDomain, tokens);
  holder.release({holder.publish(tokens)});
  CHECK(holder.tier.stats().unwritten == 2);
  const auto wanted = holder.tier.next_write_downs();
  REQUIRE(wanted.blocks.size() == 2);  // a sixteenth of the blocks at a time
  CHECK(wanted.tier == 0);
  CHECK_FALSE(wanted.blocks[0].parent);
  CHECK(wanted.blocks[1].key == keys[1]);
  CHECK(wanted.blocks[1].parent == keys[0]);
  CHECK(holder.tier.next_write_downs().blocks.empty());
  CHECK(holder.lease(32).size() == 30);  // the tail goes, these two are held
  holder.tier.written_down({kEpoch, {keys[0]}, {keys[1]}});
  holder.tier.check_invariants();
  CHECK(holder.tier.stats().locked == 0);
  CHECK(holder.tier.stats().unwritten == 0);
  CHECK(holder.lease(2).size() == 2);
  CHECK(holder.tier.stats().dropped_blocks == 1);
  CHECK(holder.tier.stats().lost_blocks == 1);

  holder.tier.begin_epoch(kEpoch, 32);  // without one
  holder.release({holder.publish(tokens)});
  CHECK(holder.tier.next_write_downs().blocks.empty());
  CHECK(holder.lease(32).size() == 32);
  CHECK(holder.tier.stats().lost_blocks == 1);
}

TEST_CASE("write-downs: no use of a block, and void when the tier below has died") {
  Holder holder(32);
  holder.tier.begin_epoch(kEpoch, 32, true);
  const auto old = numbers(0, 32), young = numbers(100, 64);
  holder.release({holder.publish(old)});
  holder.release({holder.publish(young)});
  CHECK(holder.tier.next_write_downs().blocks.size() == 2);
  holder.tier.tier_below_lost(false);
  holder.tier.check_invariants();
  CHECK(holder.tier.stats().locked == 0);
  CHECK(holder.tier.stats().unwritten == 3);
  CHECK(holder.lease(30).size() == 30);
  CHECK(holder.match(old).device_blocks.empty());  // still the one used longest ago
  const auto again = holder.tier.next_write_downs();
  REQUIRE(again.blocks.size() == 1);
  CHECK(again.soon);  // before what has not been asked for
  CHECK(again.blocks[0].key == block_keys(kDomain, young)[0]);
  holder.tier.tier_below_lost(true);
  CHECK(holder.tier.stats().unwritten == 0);
  CHECK(holder.tier.next_write_downs().blocks.empty());
}

TEST_CASE("the answer of the tiers below goes on from the device's, and says why the chain ends") {
  Holder holder(16);
  const auto tokens = numbers(0, 170);  // five blocks
  holder.release({holder.publish(numbers(0, 40))});
  Match request{kEpoch, LockId{100}, 0, block_keys(kDomain, tokens), tokens, 169, kDomain};
  auto answer = holder.tier.match(request);
  REQUIRE(answer.device_blocks.size() == 1);
  const Match asked = match_below(request, 1);
  CHECK(asked.first_block == 1);
  CHECK(asked.keys == std::vector<BlockKey>(request.keys.begin() + 1, request.keys.end()));
  CHECK(asked.tokens.empty());
  CHECK(match_below(asked, 2).first_block == 3);
  CHECK(match_below(asked, 2).keys.size() == 2);
  CHECK(match_below(asked, 4).keys.empty());

  PrefixMatched below;
  below.host_blocks = {7, 8};
  below.disk_blocks = {9};
  below.host_tier = 21;
  below.disk_tier = 22;
  auto part = answer;
  holder.tier.join(part, below, asked, tokens.size());
  CHECK(part.host_blocks == std::vector<BlockId>{7, 8});
  CHECK(part.disk_blocks == std::vector<BlockId>{9});
  CHECK(part.host_tier == 21);
  CHECK(part.disk_tier == 22);
  CHECK(part.miss == MissReason::kNeverSeen);
  below.disk_blocks = {9, 10};
  auto whole = answer;
  holder.tier.join(whole, below, asked, tokens.size());
  CHECK(whole.miss == MissReason::kNone);

  request.max_tokens = 100;  // scores from there on
  const Match cut = match_below(request, 1);
  CHECK(cut.keys.size() == 2);
  below.disk_blocks.clear();
  whole = answer;
  holder.tier.join(whole, below, cut, tokens.size());
  CHECK(whole.miss == MissReason::kScoresWanted);
  whole = answer;
  holder.tier.join(whole, {}, cut, tokens.size());
  CHECK(whole.miss == answer.miss);
  request.max_tokens = 31;
  CHECK(match_below(request, 0).keys.empty());
}

}  // namespace troupe::kv
