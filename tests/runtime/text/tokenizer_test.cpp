#include "runtime/text/tokenizer.h"
#include "runtime/text/merge_table.h"
#include "runtime/text/pre_tokenizer.h"
#include "tests/support/random.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::text;

namespace {

std::shared_ptr<const Tokenizer> tiny() {
  auto made = Tokenizer::make(test::tiny_vocabulary(400));
  REQUIRE(made.ok());
  return *made;
}

std::vector<std::string> words(const char* rule, std::string_view text) {
  const auto pre = PreTokenizer::make(rule);
  REQUIRE(pre.ok());
  std::vector<std::string_view> views;
  pre->split(text, views);
  return {views.begin(), views.end()};
}

/// The definition, taken literally: again and again, the leftmost pair of the best rank.
std::vector<TokenId> merge_slowly(std::vector<TokenId> symbols, const std::vector<std::array<TokenId, 3>>& ranked) {
  for (;;) {
    bool merged = false;
    for (const auto& [left, right, both] : ranked) {
      for (std::size_t i = 0; i + 1 < symbols.size() && !merged; ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] = both;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
    if (!merged) return symbols;
  }
}

}  // namespace

TEST_CASE("merging equals its definition on random tables and words") {
  test::SmallRandom random(3);
  for (int round = 0; round < 200; ++round) {
    MergeTable table;
    std::vector<std::array<TokenId, 3>> ranked;
    for (TokenId merged = 4; merged < 16; ++merged) {
      const std::array<TokenId, 3> rule{static_cast<TokenId>(random.below(merged)), static_cast<TokenId>(random.below(merged)), merged};
      table.add(rule[0], rule[1], rule[2]);
      ranked.push_back(rule);
    }
    std::vector<TokenId> word(random.below(40));
    for (TokenId& symbol : word) symbol = static_cast<TokenId>(random.below(4));
    const auto expected = merge_slowly(word, ranked);
    table.merge(word);
    CHECK(word == expected);
  }
}

TEST_CASE("pre-tokenizer rules") {
  using Words = std::vector<std::string>;
  CHECK(words("starcoder", "I'm 12 x") == Words{"I", "'m", " ", "1", "2", " x"});
  CHECK(words("starcoder", "a  5") == Words{"a", "  ", "5"});  // digits are cut out first: the spaces do not see them
  CHECK(words("smollm", "I'm 12 x") == Words{"I", "'m", " 12", " x"});
  CHECK(words("gpt-2", "a  5") == Words{"a", " ", " 5"});
  CHECK(words("gpt-2", "x 123,\n\n y ") == Words{"x", " 123", ",", "\n\n", " y", " "});
  CHECK(words("llama-bpe", "x 12345!\n\nIT'S") == Words{"x", " ", "123", "45", "!\n\n", "IT", "'S"});
  CHECK(words("qwen2", "x 12 (a)") == Words{"x", " ", "1", "2", " (", "a", ")"});
  CHECK(words("smollm", "a\xff\xe4\xbd z") == Words{"a", "\xff", "\xe4", "\xbd", " z"});
  CHECK(words("smollm", "").empty());
  const auto unknown = PreTokenizer::make("no-such-rule");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().client_text.find("smollm") != std::string::npos);
}

TEST_CASE("words joined are the text, for every rule and any bytes") {
  test::SmallRandom random(11);
  for (const PreTokenizerRule& rule : pre_tokenizer_rules()) {
    for (int round = 0; round < 50; ++round) {
      std::string text, joined;
      while (text.size() < 60) text += random.below(3) == 0 ? static_cast<char>(random.below(256)) : " aZ9'\n,."[random.below(8)];
      for (const std::string& word : words(std::string(rule.name).c_str(), text)) joined += word;
      CHECK(joined == text);
    }
  }
}

TEST_CASE("decode(encode(bytes)) == bytes when every byte has a token") {
  const auto tokenizer = tiny();
  test::SmallRandom random(5);
  for (int round = 0; round < 500; ++round) {
    std::string text(random.below(120), ' ');
    for (char& c : text) c = random.below(2) == 0 ? static_cast<char>(random.below(256)) : static_cast<char>('a' + random.below(26));
    CHECK(tokenizer->decode(tokenizer->encode(text, false)) == text);
  }
}

TEST_CASE("merges apply inside words only") {
  const auto tokenizer = tiny();
  const auto ids = tokenizer->encode(" the the", false);
  REQUIRE(ids.size() == 2);
  CHECK(ids[0] == ids[1]);
  CHECK(tokenizer->bytes(ids[0]) == " the");
  CHECK(tokenizer->find(" the") == ids[0]);
}

TEST_CASE("control tokens only where pieces allow them") {
  const auto tokenizer = tiny();
  const std::string start = "<|im_start|>";
  CHECK(tokenizer->encode(start, true) == std::vector<TokenId>{test::kTinyImStart});
  CHECK(tokenizer->decode(tokenizer->encode(start, false)) == start);
  const auto count_control = [&](std::vector<TextPiece> pieces) {
    std::size_t count = 0;
    std::string text;
    for (const TextPiece& piece : pieces) text += piece.text;
    const auto ids = tokenizer->encode(pieces);
    CHECK(tokenizer->decode(ids) == text);
    for (const TokenId id : ids) count += tokenizer->is_control(id) ? 1 : 0;
    return count;
  };
  CHECK(count_control({{start, true}, {start, false}, {start, true}}) == 2);
  CHECK(count_control({{"<|im_", true}, {"start|>", false}}) == 0);  // half of it is the user's
  CHECK(count_control({{"<|im_", false}, {"start|>", true}}) == 0);
  CHECK(count_control({{"<|im_", true}, {"start|>", true}}) == 1);
  CHECK(count_control({{"<|im_", true}, {"", false}, {"start|>", true}}) == 1);
  CHECK(count_control({{start + start, false}, {"x<|im_end|>", true}, {"<|im_end|>", false}}) == 1);
}

TEST_CASE("pieces are one text for the merges") {
  const auto tokenizer = tiny();
  const std::vector<TextPiece> pieces{{" t", true}, {"he", false}};
  CHECK(tokenizer->encode(pieces) == tokenizer->encode(" the", false));
}

TEST_CASE("user-defined tokens are found everywhere, the longest first") {
  auto vocabulary = test::tiny_vocabulary(300);
  for (const char* name : {"<tool>", "<tool>x"}) {
    vocabulary.tokens.emplace_back(name);
    vocabulary.types.push_back(4);
  }
  const auto made = Tokenizer::make(std::move(vocabulary));
  REQUIRE(made.ok());
  CHECK((*made)->encode("<tool><tool>x", false) == std::vector<TokenId>{300, 301});
  CHECK_FALSE((*made)->is_control(300));
}

TEST_CASE("ends of generation, odd ids, identity") {
  const auto tokenizer = tiny();
  CHECK(tokenizer->end_of_generation() == std::vector<TokenId>{test::kTinyImEnd, test::kTinyEndOfText});
  std::size_t longest = 0;
  for (TokenId id = 0; id < tokenizer->size(); ++id) longest = std::max(longest, tokenizer->bytes(id).size());
  CHECK(tokenizer->longest() == longest);
  CHECK(tokenizer->bytes(1U << 30).empty());
  CHECK_FALSE(tokenizer->is_control(1U << 30));
  CHECK(tokenizer->decode(std::vector<TokenId>{test::kTinyImEnd, 3 + 'a', 1U << 31}, false) == "a");
  CHECK(tokenizer->id() == tiny()->id());
  auto other = test::tiny_vocabulary(400);
  std::swap(other.merges[0], other.merges[1]);
  CHECK((*Tokenizer::make(other))->id() != tokenizer->id());
}

TEST_CASE("inconsistent vocabularies are errors") {
  const auto fails = [](auto&& change) {
    auto vocabulary = test::tiny_vocabulary(300);
    change(vocabulary);
    const auto made = Tokenizer::make(std::move(vocabulary));
    if (!made) CHECK(made.error().client_text.find('\n') == std::string::npos);
    return !made.ok();
  };
  CHECK_FALSE(fails([](Vocabulary&) {}));
  CHECK(fails([](Vocabulary& v) { v.tokens.clear(); }));
  CHECK(fails([](Vocabulary& v) { v.types.pop_back(); }));
  CHECK(fails([](Vocabulary& v) { v.merges.emplace_back("nospace"); }));
  CHECK(fails([](Vocabulary& v) { v.merges.emplace_back("a "); }));
  CHECK(fails([](Vocabulary& v) { v.merges.emplace_back("abc def"); }));
  CHECK(fails([](Vocabulary& v) { v.merges.emplace_back(""); }));
  CHECK(fails([](Vocabulary& v) { v.eos = 300; }));
  CHECK(fails([](Vocabulary& v) { v.pre = "unheard-of"; }));
}

TEST_CASE("a very long word takes no quadratic time") {
  const auto tokenizer = tiny();
  const std::string text(1U << 20, 'e');  // a quadratic merge would run for hours: the test's time limit is the check
  CHECK(tokenizer->decode(tokenizer->encode(text, false)) == text);
  const std::string spaces(1U << 20, ' ');
  CHECK(tokenizer->decode(tokenizer->encode(spaces + "x", false)) == spaces + "x");
}
