// The real vocabulary against the reference tokenizer. How the ids were made: tests/reference/tokenizer_reference.py.
#include "runtime/text/tokenizer.h"
#include "runtime/weights/gguf_file.h"
#include "tests/support/model_file.h"
#include "tests/support/random.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>

using namespace troupe;
using namespace troupe::text;

namespace {
const Tokenizer& smollm2() {
  static const std::shared_ptr<const Tokenizer> tokenizer = [] {
    const auto file = weights::GgufFile::open(test::default_model_file());
    if (!file) throw std::runtime_error(file.error().client_text);
    auto vocabulary = weights::read_vocabulary(**file);
    if (!vocabulary) throw std::runtime_error(vocabulary.error().client_text);
    auto made = Tokenizer::make(std::move(*vocabulary));
    if (!made) throw std::runtime_error(made.error().client_text);
    return *made;
  }();
  return *tokenizer;
}
}  // namespace

TEST_CASE("ids equal the reference on every golden line") {
  std::ifstream lines(TROUPE_TEST_DATA "/golden/smollm2_tokens.jsonl");
  REQUIRE(lines.good());
  std::size_t count = 0, wrong = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto golden = nlohmann::json::parse(line);
    const auto text = golden.at("text").get<std::string>();
    const auto ids = smollm2().encode(text, true);
    if (ids != golden.at("ids").get<std::vector<TokenId>>() && ++wrong <= 10) UNSCOPED_INFO("line " << count + 1 << ": " << text);
    if (smollm2().decode(ids) != text && ++wrong <= 10) UNSCOPED_INFO("decode, line " << count + 1 << ": " << text);
  }
  CHECK(wrong == 0);
  CHECK(count == 2000);
}

TEST_CASE("R72: blanks beside control tokens and at the start are tokenized as the reference does") {
  std::ifstream lines(TROUPE_TEST_DATA "/golden/smollm2_special.jsonl");
  REQUIRE(lines.good());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto golden = nlohmann::json::parse(line);
    const auto text = golden.at("text").get<std::string>();
    CAPTURE(text);
    CHECK(smollm2().encode(text, true) == golden.at("ids").get<std::vector<TokenId>>());
    CHECK(smollm2().decode(smollm2().encode(text, true)) == text);
  }
  CHECK(count > 90);
}

TEST_CASE("random bytes come back, but for those that the vocabulary does not have") {
  std::vector<bool> known(256);
  std::size_t missing = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    known[byte] = smollm2().find(std::string_view(&c, 1)).has_value();
    missing += known[byte] ? 0 : 1;
  }
  CHECK(missing == 21);
  test::SmallRandom random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text(random.below(200), ' '), expected;
    for (char& c : text) c = static_cast<char>(random.below(256));
    for (const char c : text)
      if (known[static_cast<unsigned char>(c)]) expected += c;
    CHECK(smollm2().decode(smollm2().encode(text, false)) == expected);
  }
}

TEST_CASE("control tokens of the real model") {
  CHECK(smollm2().encode("<|im_start|>user", true) == std::vector<TokenId>{1, 4093});
  const auto plain = smollm2().encode("<|im_start|>", false);
  CHECK(plain.size() > 1);
  CHECK(smollm2().decode(plain) == "<|im_start|>");
  CHECK(smollm2().is_control(2));
  CHECK_FALSE(smollm2().is_control(4093));
  CHECK(smollm2().end_of_generation() == std::vector<TokenId>{2, 0});
}
