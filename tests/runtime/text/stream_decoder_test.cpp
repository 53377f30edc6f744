#include "runtime/text/stream_decoder.h"
#include "runtime/text/utf8.h"
#include "tests/support/random.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::text;

namespace {

std::shared_ptr<const Tokenizer> tiny() {
  static const auto tokenizer = *Tokenizer::make(test::tiny_vocabulary(600));
  return tokenizer;
}

/// What the stream as a whole must come to.
struct Outcome {
  std::string text;
  std::uint32_t tokens = 0;
  std::optional<std::string> stop;
};

/// The whole output as valid text; ends[i] = where token i ends in it (a token that ends inside a character ends with it).
std::string whole_text(const std::vector<TokenId>& ids, std::vector<std::size_t>& ends) {
  std::string bytes, text;
  std::vector<std::size_t> byte_ends;
  for (const TokenId id : ids) {
    if (!tiny()->is_control(id)) bytes += tiny()->bytes(id);
    byte_ends.push_back(bytes.size());
  }
  std::vector<std::size_t> text_at(bytes.size() + 1, 0);  // text offset once that many bytes are characters
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
    text += step.kind == Utf8::kValid ? std::string_view(bytes).substr(at, step.length) : kReplacement;
    for (std::size_t i = 1; i <= step.length; ++i) text_at[at + i] = text.size();
    at += step.length;
  }
  for (const std::size_t end : byte_ends) ends.push_back(text_at[end]);
  return text;
}

Outcome brute_force(const std::vector<TokenId>& ids, const std::vector<std::string>& stops) {
  std::vector<std::size_t> ends;
  Outcome out;
  out.text = whole_text(ids, ends);
  for (std::size_t end = 1; end <= out.text.size() && !out.stop; ++end)
    for (const std::string& stop : stops)
      if (out.text.substr(0, end).ends_with(stop) && (!out.stop || stop.size() > out.stop->size())) out.stop = stop;
  if (out.stop) {
    std::size_t cut = std::string::npos, first_end = std::string::npos;
    for (const std::string& stop : stops)
      if (const auto found = out.text.find(stop); found != std::string::npos) first_end = std::min(first_end, found + stop.size());
    cut = first_end - out.stop->size();
    out.text.resize(cut);
  }
  for (const std::size_t end : ends) out.tokens += end <= out.text.size() ? 1 : 0;
  return out;
}

bool is_valid(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8::kValid) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

/// Runs the decoder; checks what must hold of every piece.
Outcome stream(const std::vector<TokenId>& ids, const std::vector<std::string>& stops) {
  StreamDecoder decoder(tiny(), stops);
  Outcome out;
  const auto take = [&](const StreamDecoder::Piece& piece) {
    CHECK(is_valid(piece.text));
    if (out.stop) {
      CHECK(piece.text.empty());
      CHECK(piece.tokens == 0);
    }
    out.text += piece.text;
    out.tokens += piece.tokens;
    if (piece.stop) out.stop = piece.stop;
    CHECK(decoder.stopped() == out.stop.has_value());
    CHECK(decoder.tokens_before_stop() == out.tokens);
  };
  for (const TokenId id : ids) take(decoder.push(id));
  take(decoder.finish());
  return out;
}

void check_equal(const std::vector<TokenId>& ids, const std::vector<std::string>& stops) {
  const Outcome expected = brute_force(ids, stops), got = stream(ids, stops);
  CAPTURE(ids, stops);
  CHECK(got.text == expected.text);
  CHECK(got.stop == expected.stop);
  CHECK(got.tokens == expected.tokens);
}

/// The text cut into tokens at random places: not as the tokenizer would, which the decoder must not rely on.
std::vector<TokenId> random_split(const std::string& text, test::SmallRandom& random) {
  std::vector<TokenId> ids;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 1 + random.below(3);
    std::optional<TokenId> id;
    while (!id) id = tiny()->find(std::string_view(text).substr(at, length--));
    ids.push_back(*id);
    at += tiny()->bytes(*id).size();
    if (random.below(12) == 0) ids.push_back(test::kTinyEndOfText);  // no text
  }
  return ids;
}

}  // namespace

TEST_CASE("random texts, splits and stops equal the whole text, cut") {
  test::SmallRandom random(21);
  const std::vector<std::string> stop_pool{"ab", "abab", "b", "aab", "ca", "cab", "é", "aé", "\n\n", "abcabc", "€b", "\xef\xbf\xbd"};
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (std::size_t n = random.below(24); n > 0; --n) {
      const char* parts[] = {"a", "b", "c", "a", "b", "é", "€", "\n", "😀", "\xff", "\xe2\x82", "\xf0\x9f"};
      text += parts[random.below(std::size(parts))];
    }
    std::vector<std::string> stops;
    for (std::size_t n = random.below(4); n > 0; --n) stops.push_back(stop_pool[random.below(stop_pool.size())]);
    check_equal(random_split(text, random), stops);
  }
}

TEST_CASE("a stop string is never sent in part") {
  StreamDecoder decoder(tiny(), {"</s>"});
  CHECK(decoder.push(*tiny()->find("x")).text == "x");
  CHECK(decoder.push(*tiny()->find("<")).text.empty());
  CHECK(decoder.push(*tiny()->find("/")).text.empty());
  const auto released = decoder.push(*tiny()->find("<"));  // "</" was no stop after all; the new "<" may be one
  CHECK(released.text == "</");
  CHECK(released.tokens == 2);
  for (const char* part : {"/", "s"}) CHECK(decoder.push(*tiny()->find(part)).text.empty());
  const auto stop = decoder.push(*tiny()->find(">"));
  CHECK(stop.text.empty());
  CHECK(stop.stop == "</s>");
  CHECK(decoder.tokens_before_stop() == 3);
  CHECK(decoder.push(*tiny()->find("y")).text.empty());
}

TEST_CASE("the first complete stop wins, the longest of equals") {
  const auto ids = [](std::string_view text) { return tiny()->encode(text, false); };
  CHECK(stream(ids("abcd"), {"abcd", "bc"}).text == "a");
  CHECK(stream(ids("xabc"), {"c", "abc", "bc"}).stop == "abc");
  CHECK(stream(ids("plain"), {""}).text == "plain");
}

TEST_CASE("an incomplete character is held, and replaced at the end") {
  StreamDecoder decoder(tiny(), {});
  const auto byte = [](const char* c) { return *tiny()->find(std::string_view(c, 1)); };
  CHECK(decoder.push(byte("\xf0")).text.empty());
  CHECK(decoder.push(byte("\x9f")).tokens == 0);
  CHECK(decoder.push(byte("\x98")).text.empty());
  const auto whole = decoder.push(byte("\x80"));
  CHECK(whole.text == "😀");
  CHECK(whole.tokens == 4);
  CHECK(decoder.push(byte("\xe2")).text.empty());
  const auto rest = decoder.finish();
  CHECK(rest.text == kReplacement);
  CHECK(rest.tokens == 1);
}

TEST_CASE("control tokens are counted and give no text") {
  StreamDecoder decoder(tiny(), {"ab"});
  CHECK(decoder.push(test::kTinyImEnd).tokens == 1);
  CHECK(decoder.push(*tiny()->find("a")).tokens == 0);
  CHECK(decoder.push(test::kTinyImEnd).tokens == 0);  // behind what is held back
  const auto rest = decoder.finish();
  CHECK(rest.text == "a");
  CHECK(rest.tokens == 2);
}
