#include "runtime/session/session_tree.h"

#include "messages/error_reasons.h"

#include <catch2/catch.hpp>

#include <random>

using namespace troupe;
using namespace troupe::session;
using std::chrono::seconds;

namespace {
constexpr Hash128 kAlice{1, 1}, kBob{2, 2};
const TimePoint kStart{seconds(1000)};

StoredResponse response(std::string id, std::string parent, std::uint32_t inherited, std::vector<TokenId> tokens, Hash128 owner = kAlice) {
  StoredResponse stored;
  stored.id = std::move(id);
  stored.parent = std::move(parent);
  stored.owner = owner;
  stored.inherited = inherited;
  stored.tokens = std::move(tokens);
  stored.prompt_tokens = 1;
  return stored;
}
}  // namespace

TEST_CASE("a path is its parents' ids and its own; forks share") {
  SessionTree tree(seconds(60), 1000);
  REQUIRE(tree.store(response("a", "", 0, {1, 2, 3}), kStart));
  REQUIRE(tree.store(response("b", "a", 3, {4, 5}), kStart));
  REQUIRE(tree.store(response("c", "a", 2, {9}), kStart));
  REQUIRE(tree.store(response("d", "b", 4, {6}), kStart));
  CHECK(tree.find(kAlice, "b", 0, kStart)->tokens == std::vector<TokenId>{1, 2, 3, 4, 5});
  CHECK(tree.find(kAlice, "c", 0, kStart)->tokens == std::vector<TokenId>{1, 2, 9});
  CHECK(tree.find(kAlice, "d", 0, kStart)->tokens == std::vector<TokenId>{1, 2, 3, 4, 6});
  CHECK(tree.stored_tokens() == 7);
  // The parent may go: its children keep what they need.
  REQUIRE(*tree.drop(kAlice, "a", false, kStart) == 1);
  CHECK_FALSE(tree.find(kAlice, "a", 0, kStart));
  CHECK(tree.find(kAlice, "d", 0, kStart)->tokens == std::vector<TokenId>{1, 2, 3, 4, 6});
  CHECK(*tree.drop(kAlice, "b", true, kStart) == 2);
  CHECK(tree.size() == 1);
  CHECK(tree.stored_tokens() == 4);  // c and what it needs of a
}

TEST_CASE("random trees agree with plain copies") {
  std::mt19937 random(3);
  SessionTree tree(seconds(60), 1U << 20);
  std::map<std::string, std::vector<TokenId>> model;
  for (int i = 0; i < 2000; ++i) {
    std::string parent;
    std::vector<TokenId> path;
    std::uint32_t inherited = 0;
    if (!model.empty() && random() % 4 != 0) {
      auto at = model.begin();
      std::advance(at, random() % model.size());
      parent = at->first;
      inherited = static_cast<std::uint32_t>(random() % (at->second.size() + 1));
      path.assign(at->second.begin(), at->second.begin() + inherited);
    }
    std::vector<TokenId> own;
    for (std::size_t j = 0; j < random() % 5; ++j) own.push_back(static_cast<TokenId>(random()));
    path.insert(path.end(), own.begin(), own.end());
    const auto id = "r" + std::to_string(i);
    REQUIRE(tree.store(response(id, parent, inherited, own), kStart));
    model[id] = path;
    if (random() % 5 == 0) {
      auto at = model.begin();
      std::advance(at, random() % model.size());
      REQUIRE(tree.drop(kAlice, at->first, false, kStart));
      model.erase(at);
    }
  }
  for (const auto& [id, path] : model) CHECK(tree.find(kAlice, id, 0, kStart)->tokens == path);
  for (const auto& [id, path] : model) CHECK(tree.drop(kAlice, id, false, kStart));
  CHECK(tree.stored_tokens() == 0);
}

TEST_CASE("another owner, another connection, a late hour: the same words") {
  SessionTree tree(seconds(60), 1000);
  auto stored = response("a", "", 0, {1});
  stored.retention = Retention::kConnection;
  stored.connection = 5;
  REQUIRE(tree.store(stored, kStart));
  const auto text = tree.find(kBob, "a", 5, kStart).error().client_text;
  CHECK(tree.find(kAlice, "a", 6, kStart).error().client_text == text);
  CHECK(tree.find(kAlice, "a", 5, kStart));
  CHECK(tree.find(kAlice, "a", 5, kStart + seconds(61)).error().client_text == text);
  CHECK(tree.size() == 0);
  CHECK_FALSE(tree.drop(kAlice, "a", false, kStart));
}

TEST_CASE("a closed connection takes its responses along") {
  SessionTree tree(seconds(60), 1000);
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto stored = response("r" + std::to_string(i), "", 0, {1});
    stored.retention = i % 2 == 0 ? Retention::kConnection : Retention::kMemory;
    stored.connection = 1;
    REQUIRE(tree.store(stored, kStart));
  }
  tree.close_connection(1);
  CHECK(tree.size() == 2);
}

TEST_CASE("a full tree lets the longest unused go") {
  SessionTree tree(seconds(60), 10);
  for (const char* id : {"a", "b", "c"}) REQUIRE(tree.store(response(id, "", 0, {1, 2, 3}), kStart));
  REQUIRE(tree.find(kAlice, "a", 0, kStart));
  REQUIRE(tree.store(response("d", "", 0, {1, 2, 3}), kStart));
  CHECK(tree.find(kAlice, "a", 0, kStart));
  CHECK_FALSE(tree.find(kAlice, "b", 0, kStart));
  CHECK(tree.find(kAlice, "d", 0, kStart));
  CHECK_FALSE(tree.store(response("e", "", 0, std::vector<TokenId>(11, 1)), kStart));
}

TEST_CASE("what cannot be stored is an error") {
  SessionTree tree(seconds(60), 1000);
  REQUIRE(tree.store(response("a", "", 0, {1}), kStart));
  CHECK_FALSE(tree.store(response("a", "", 0, {1}), kStart));
  CHECK_FALSE(tree.store(response("", "", 0, {1}), kStart));
  CHECK_FALSE(tree.store(response("b", "gone", 1, {1}), kStart));
  CHECK_FALSE(tree.store(response("b", "a", 2, {1}), kStart));
  CHECK_FALSE(tree.store(response("b", "a", 1, {1}, kBob), kStart));
}

TEST_CASE("listing goes by id, page after page, own responses only") {
  SessionTree tree(seconds(60), 1000);
  for (const char* id : {"a", "b", "c"}) REQUIRE(tree.store(response(id, "", 0, {1, 2}), kStart));
  REQUIRE(tree.store(response("bb", "", 0, {1}, kBob), kStart));
  const auto page = tree.list(kAlice, "a", 10, kStart);
  REQUIRE(page.size() == 2);
  CHECK(page[0].id == "b");
  CHECK(page[1].id == "c");
  CHECK(page[0].path_tokens == 2);
  CHECK(tree.list(kAlice, "", 1, kStart).size() == 1);
}
