// Public traces through the device tier: plain LRU has the hit rates that are known of it, and the tier's own order of eviction (unlocked
// leaves, least recently used first) has none that is lower.
#include "runtime/kv/block_key.h"
#include "runtime/kv/device_tier.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <list>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe::kv {
namespace {

using Trace = std::vector<std::vector<std::uint32_t>>;  // ids of the blocks of each request
constexpr GroupEpoch kEpoch{1};
constexpr Hash128 kDomain{1, 2};

Trace read_trace(const std::string& name) {
  std::ifstream file(std::string(TROUPE_TEST_DATA) + "/traces/" + name);
  REQUIRE(file);
  Trace trace;
  for (std::string line; std::getline(file, line);) {
    std::istringstream runs(line);
    trace.emplace_back();
    for (std::string run; runs >> run;) {
      const std::size_t plus = run.find('+');
      const auto first = static_cast<std::uint32_t>(std::stoul(run));
      const std::size_t count = plus == std::string::npos ? 1 : std::stoul(run.substr(plus + 1));
      for (std::size_t i = 0; i < count; ++i) trace.back().push_back(first + static_cast<std::uint32_t>(i));
    }
  }
  return trace;
}

std::size_t blocks_of(const Trace& trace) {
  std::size_t sum = 0;
  for (const auto& request : trace) sum += request.size();
  return sum;
}

/// Share of blocks found by a list of the last `capacity` used ones; a hit is one behind which no block of its request is missing.
double plain_lru(const Trace& trace, std::size_t capacity) {
  std::list<std::uint32_t> order;  // newest first
  std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> places;
  std::size_t hits = 0;
  for (const auto& request : trace) {
    std::size_t known = 0;
    while (known < request.size() && places.contains(request[known])) ++known;
    hits += known;
    for (const std::uint32_t block : request) {
      if (const auto place = places.find(block); place != places.end()) order.erase(place->second);
      order.push_front(block);
      places[block] = order.begin();
      if (order.size() <= capacity) continue;
      places.erase(order.back());
      order.pop_back();
    }
  }
  return static_cast<double>(hits) / static_cast<double>(blocks_of(trace));
}

/// Requests as token ids: a block of the trace is one of ours, which says nothing but its id.
struct Prompts {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<BlockKey>> keys;
  explicit Prompts(const Trace& trace) {
    for (const auto& request : trace) {
      tokens.emplace_back();
      for (const std::uint32_t block : request) tokens.back().insert(tokens.back().end(), kBlockTokens, static_cast<TokenId>(block));
      keys.push_back(block_keys(kDomain, tokens.back()));
    }
  }
};

/// Share of blocks found by the device tier when the requests run one behind the other.
double device_tier(const Prompts& prompts, std::uint32_t capacity) {
  DeviceTier tier;
  tier.begin_epoch(kEpoch, capacity);
  std::uint64_t last_lock = 0;
  std::size_t hits = 0, wanted = 0;
  for (std::size_t i = 0; i < prompts.tokens.size(); ++i) {
    const auto& tokens = prompts.tokens[i];
    const auto& keys = prompts.keys[i];
    const LockId found{++last_lock}, added{++last_lock};
    const auto matched = tier.match({kEpoch, found, 0, keys, tokens, static_cast<std::uint32_t>(tokens.size()), kDomain});
    const auto known = static_cast<std::uint32_t>(matched.device_blocks.size());
    hits += known;
    wanted += keys.size();
    PublishBlocks publish{kEpoch, added, {}, {}, {}, 0, {}, kDomain};
    if (known > 0) publish.parent = keys[known - 1];
    publish.keys.assign(keys.begin() + known, keys.end());
    publish.tokens.assign(tokens.begin() + known * kBlockTokens, tokens.end());
    for (const BlockRange& range : tier.lease({kEpoch, LeaseId{1}, static_cast<std::uint32_t>(publish.keys.size()), true}).ranges)
      for (std::uint32_t block = 0; block < range.count; ++block) publish.blocks.push_back(range.first + block);
    REQUIRE(publish.blocks.size() == publish.keys.size());
    tier.publish(publish);
    tier.release({kEpoch, {added, found}, {}});
  }
  tier.check_invariants();
  CHECK(tier.stats().locked == 0);
  CHECK(tier.stats().hit_tokens == hits * kBlockTokens);
  return static_cast<double>(hits) / static_cast<double>(wanted);
}

struct Known {
  std::uint32_t capacity;
  double conversation, synthetic;  // of plain LRU, to four digits
};
constexpr Known kKnown[] = {{1000, .0445, .0825},  {2000, .0537, .1439},  {5859, .1355, .3094},
                            {10000, .2112, .4235}, {20000, .2875, .5715}, {50000, .3546, .6396}};

void compare(const std::string& name, double Known::*known) {
  const Trace trace = read_trace(name);
  const Prompts prompts(trace);
  for (const Known& row : kKnown) {
    const double plain = plain_lru(trace, row.capacity), ours = device_tier(prompts, row.capacity);
    INFO(name << ", " << row.capacity << " blocks: plain LRU " << plain << ", device tier " << ours);
    CHECK(plain == Approx(row.*known).margin(0.00005));
    CHECK(ours >= plain);
    CHECK(ours < plain + 0.01);  // more would be a fault of the test
  }
}

}  // namespace

TEST_CASE("hit rates of public traces: conversation", "[.slow]") { compare("mooncake_conversation.blocks", &Known::conversation); }
TEST_CASE("hit rates of public traces: synthetic", "[.slow]") { compare("mooncake_synthetic.blocks", &Known::synthetic); }

}  // namespace troupe::kv
