#include "runtime/session/generation.h"

#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace troupe;
using namespace troupe::session;

namespace {

const auto kTokenizer = text::Tokenizer::make(test::tiny_vocabulary(259)).value();

std::vector<TokenId> bytes(std::string_view text) {
  std::vector<TokenId> tokens;
  for (unsigned char byte : text) tokens.push_back(3U + byte);
  return tokens;
}
schedule::TokensGenerated tokens(std::string_view text, std::uint32_t first, std::uint16_t choice = 0, std::uint16_t attempt = 0) {
  schedule::TokensGenerated message;
  message.choice = choice;
  message.attempt = attempt;
  message.first = first;
  message.tokens = bytes(text);
  return message;
}
std::string all_text(Generation& generation) {
  std::string text;
  for (const auto& piece : generation.take_pieces()) text += piece.text;
  return text;
}

}  // namespace

TEST_CASE("text comes out as whole characters; length ends a choice") {
  Request request;
  Generation generation(request, kTokenizer, bytes("prompt"), 10);
  generation.admissions(0, {});
  CHECK_FALSE(generation.on_tokens(tokens("ab\xc3", 0)));
  CHECK(all_text(generation) == "ab");
  auto last = tokens("\xa9", 3);
  last.finish = schedule::Finish::kLength;
  generation.on_tokens(last);
  CHECK(all_text(generation) == "\xc3\xa9");
  REQUIRE(generation.done());
  CHECK(generation.ends().at(0).reason == ChoiceReason::kLength);
  CHECK(generation.output_tokens() == 4);
  CHECK(generation.stored_tokens() == bytes("promptab\xc3\xa9"));
}

TEST_CASE("a stop string ends the choice, asks for an abort once, and what is past it is neither billed nor stored") {
  Request request;
  request.stops = {"END"};
  Generation generation(request, kTokenizer, bytes("p"), 100);
  generation.admissions(0, {});
  CHECK_FALSE(generation.on_tokens(tokens("hello E", 0)));
  CHECK(all_text(generation) == "hello ");
  CHECK(generation.on_tokens(tokens("ND and more", 7)));
  CHECK(generation.done());
  CHECK(all_text(generation).empty());
  CHECK_FALSE(generation.on_tokens(tokens("later", 18)));
  CHECK(generation.output_tokens() == 6);
  CHECK(generation.stored_tokens() == bytes("phello "));
  CHECK(generation.stored_text() == "hello ");
  CHECK(generation.ends().at(0).stop == "END");
}

TEST_CASE("resume: each choice under way is admitted again with its tokens; older messages are dropped") {
  Request request;
  request.choices = 3;
  request.max_tokens = 10;
  Generation generation(request, kTokenizer, bytes("prompt"), 10);
  const auto first = generation.admissions(0, {1, 1});
  REQUIRE(first.size() == 1);
  CHECK(first[0].choices == 3);
  generation.on_tokens(tokens("abc", 0, 0));
  generation.on_tokens(tokens("x", 0, 1));
  auto end = tokens("done", 0, 2);
  end.finish = schedule::Finish::kStop;
  generation.on_tokens(end);
  const auto again = generation.admissions(1, {1, 1});
  REQUIRE(again.size() == 2);
  CHECK(again[0].tokens == bytes("promptabc"));
  CHECK(again[0].generated == 3);
  CHECK(again[0].max_tokens == 7);
  CHECK(again[0].choices == 1);
  CHECK(again[1].first_choice == 1);
  CHECK(again[1].tokens == bytes("promptx"));
  generation.on_tokens(tokens("old", 3, 0, 0));
  generation.on_tokens(tokens("new", 0, 0, 1));
  CHECK(generation.stored_text() == "abcnew");
}

TEST_CASE("a gap in the tokens is a broken invariant") {
  Request request;
  Generation generation(request, kTokenizer, bytes("p"), 10);
  generation.admissions(0, {});
  CHECK_THROWS_AS(generation.on_tokens(tokens("a", 1)), InvariantViolation);
}

TEST_CASE("log-probabilities stay beside their tokens while text is held back") {
  Request request;
  request.sampling.top_logprobs = 1;
  request.stops = {"zz"};
  Generation generation(request, kTokenizer, bytes("p"), 10);
  generation.admissions(0, {});
  auto message = tokens("az", 0);
  message.logprobs = {{-1, -2}, 1, bytes("pq"), {-0.5F, -0.25F}};
  generation.on_tokens(message);
  auto pieces = generation.take_pieces();
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].token_ids == bytes("a"));
  CHECK(pieces[0].logprobs.chosen == std::vector{-1.0F});
  CHECK(pieces[0].logprobs.ids == bytes("p"));
  CHECK(pieces[0].token_texts == std::vector<std::string>{"a", "p"});
  message = tokens("b", 2);
  message.logprobs = {{-3}, 1, bytes("r"), {-0.125F}};
  generation.on_tokens(message);
  pieces = generation.take_pieces();
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].text == "zb");
  CHECK(pieces[0].token_ids == bytes("zb"));
  CHECK(pieces[0].logprobs.chosen == std::vector{-2.0F, -3.0F});
  CHECK(pieces[0].token_texts == std::vector<std::string>{"z", "b", "q", "r"});
}

TEST_CASE("a failed choice fails the request; cancel ends what runs") {
  Request request;
  request.choices = 2;
  Generation failed(request, kTokenizer, bytes("p"), 10);
  failed.admissions(0, {});
  auto message = tokens("", 0, 1);
  message.finish = schedule::Finish::kFailed;
  message.error.client_text = "broken";
  failed.on_tokens(message);
  CHECK(failed.done());
  REQUIRE(failed.failure());
  CHECK(failed.failure()->client_text == "broken");

  Generation cancelled(request, kTokenizer, bytes("p"), 10);
  cancelled.admissions(0, {});
  cancelled.on_tokens(tokens("ab", 0, 1));
  cancelled.cancel();
  CHECK(cancelled.done());
  CHECK(cancelled.ends().at(1).reason == ChoiceReason::kCancelled);
  CHECK(cancelled.ends().at(1).output_tokens == 2);
}

TEST_CASE("an echoed prompt comes first in each choice, at once") {
  Request request;
  request.echo = true;
  request.choices = 2;
  auto prompt = bytes("ab\xf0\x9f");  // ends inside a character
  prompt.insert(prompt.begin(), test::kTinyImStart);
  Generation generation(request, kTokenizer, prompt, 10);
  generation.admissions(0, {});
  generation.on_tokens(tokens("cd", 0, 1));
  const auto pieces = generation.take_pieces();
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].text == "<|im_start|>ab\xef\xbf\xbd");
  CHECK(pieces[1].text ==
        "<|im_start|>ab\xef\xbf\xbd"
        "cd");
  CHECK(pieces[1].tokens == 2);  // those of the prompt are not the answer's
  CHECK(pieces[0].token_ids.empty());
}

TEST_CASE("an echoed prompt with log-probabilities waits for its scores, whichever attempt brings them") {
  Request request;
  request.echo = true;
  request.choices = 2;
  request.score_from = 0;
  request.sampling.top_logprobs = 1;
  Generation generation(request, kTokenizer, bytes("a\u00e9b"), 0);
  CHECK(generation.admissions(0, {}).at(0).score_from == 0);
  CHECK_FALSE(generation.has_pieces());
  generation.on_scored({{}, 0, 1, {{-1}, 1, bytes("x"), {-0.5F}}});
  CHECK_FALSE(generation.has_pieces());
  const auto again = generation.admissions(1, {});
  REQUIRE(again.size() == 2);
  CHECK(again[0].score_from == 0);
  CHECK(again[1].score_from == kNone32);                          // once is enough
  generation.on_scored({{}, 0, 2, {{-9}, 1, bytes("z"), {-9}}});  // of the attempt before
  generation.on_scored({{}, 1, 1, {{-1, -2}, 1, bytes("xy"), {-0.5F, -0.25F}}});
  CHECK_FALSE(generation.has_pieces());
  generation.on_scored({{}, 1, 3, {{-3}, 1, bytes("z"), {-0.125F}}});
  const auto pieces = generation.take_pieces();
  REQUIRE(pieces.size() == 2);
  for (const auto& piece : pieces) {
    CHECK(piece.text == "a\u00e9b");
    CHECK(piece.token_ids == bytes("a\u00e9b"));
    CHECK(piece.token_offsets == std::vector<std::uint32_t>{0, 1, 1, 2});
    REQUIRE(piece.logprobs.chosen.size() == 4);
    CHECK(std::isnan(piece.logprobs.chosen[0]));
    CHECK(piece.logprobs.chosen[3] == -3);
    CHECK(piece.token_texts.size() == 8);
    CHECK(piece.token_texts[5] == "x");
  }
  // Once they are there, a later attempt asks for no scores, and keeps them.
  CHECK(generation.admissions(2, {}).at(0).score_from == kNone32);
  CHECK(generation.prompt_logprobs().chosen.size() == 3);
}

TEST_CASE("offsets count the characters of the text; a control token gives none") {
  Request request;
  request.sampling.top_logprobs = 0;
  Generation generation(request, kTokenizer, bytes("p"), 10);
  generation.admissions(0, {});
  auto message = tokens(
      "\xf0\x9f\x98\x80"
      "a",
      0);
  message.tokens.push_back(test::kTinyImEnd);
  message.tokens.push_back(bytes("b")[0]);
  message.logprobs.chosen.assign(7, -1);
  generation.on_tokens(message);
  const auto pieces = generation.take_pieces();
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].text ==
        "\xf0\x9f\x98\x80"
        "ab");
  CHECK(pieces[0].token_offsets == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 2, 2});
  CHECK(pieces[0].controls == std::vector<bool>{false, false, false, false, false, true, false});
}
