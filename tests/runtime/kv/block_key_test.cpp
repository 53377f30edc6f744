#include "messages/error.h"
#include "runtime/kv/block_key.h"

#include <catch2/catch.hpp>

#include <numeric>
#include <set>

namespace troupe::kv {
namespace {
std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}
}  // namespace

TEST_CASE("keys chain over full blocks") {
  const Hash128 domain{1, 2};
  const auto tokens = tokens_from(100, 3 * kBlockTokens + 5);
  const auto keys = block_keys(domain, tokens);
  REQUIRE(keys.size() == 3);
  CHECK(keys[0] == block_key(domain, BlockKey{}, std::span(tokens).first(kBlockTokens)));
  CHECK(keys[1] == block_key(domain, keys[0], std::span(tokens).subspan(kBlockTokens, kBlockTokens)));
  CHECK(std::set<BlockKey>(keys.begin(), keys.end()).size() == 3);
  CHECK(block_keys(domain, tokens_from(0, kBlockTokens - 1)).empty());
}

TEST_CASE("a key depends on domain, parent and every token") {
  const auto tokens = tokens_from(7, kBlockTokens);
  const BlockKey key = block_key({1, 2}, {}, tokens);
  CHECK(key != block_key({1, 3}, {}, tokens));
  CHECK(key != block_key({1, 2}, {0, 1}, tokens));
  for (std::size_t i = 0; i < kBlockTokens; ++i) {
    auto other = tokens;
    other[i] += 1U << 24;
    CHECK(key != block_key({1, 2}, {}, other));
  }
  CHECK_THROWS_AS(block_key({1, 2}, {}, tokens_from(0, 5)), InvariantViolation);
}

TEST_CASE("R50: prompts crafted against a polynomial hash have other keys") {
  // A hash that adds 31 times the last value to the next token takes these for the same: token + 31, its neighbour - 1, and back.
  const auto tokens = tokens_from(1000, 2 * kBlockTokens);
  const auto keys = block_keys({1, 2}, tokens);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {  // inside a block, and across the boundary of two
    auto crafted = tokens;
    crafted[i] += 31;
    crafted[i + 1] -= 1;
    const auto other = block_keys({1, 2}, crafted);
    const std::size_t changed = i / kBlockTokens;
    for (std::size_t block = 0; block < keys.size(); ++block) CHECK((other[block] == keys[block]) == (block < changed));
  }
}

TEST_CASE("a key domain depends on each of its parts") {
  const Hash128 a{1, 1}, b{2, 2};
  const Hash128 domain = key_domain(a, a, a, a, "salt");
  CHECK(domain == key_domain(a, a, a, a, "salt"));
  CHECK(domain != key_domain(b, a, a, a, "salt"));
  CHECK(domain != key_domain(a, b, a, a, "salt"));
  CHECK(domain != key_domain(a, a, b, a, "salt"));
  CHECK(domain != key_domain(a, a, a, b, "salt"));
  CHECK(domain != key_domain(a, a, a, a, ""));
}

}  // namespace troupe::kv
