#include "runtime/sample/penalties.h"

#include <catch2/catch.hpp>

#include <array>

using namespace troupe::sample;

namespace {

TokenCounts counts_of(std::initializer_list<troupe::TokenId> prompt, std::initializer_list<troupe::TokenId> output) {
  TokenCounts counts;
  for (const auto token : prompt) counts.add_prompt(token);
  for (const auto token : output) counts.add_output(token);
  return counts;
}

}  // namespace

TEST_CASE("Without penalties nothing changes", "[penalties]") {
  std::array<float, 4> logits{1, -2, 3, 0};
  const auto before = logits;
  CHECK_FALSE(Penalties{}.any());
  apply_penalties({}, counts_of({0}, {1, 1}), logits);
  CHECK(logits == before);
}

TEST_CASE("Repetition divides positive and multiplies negative logits, of prompt and output", "[penalties]") {
  std::array<float, 4> logits{4, -2, 3, 0};
  Penalties penalties;
  penalties.repetition = 2.0F;
  apply_penalties(penalties, counts_of({0}, {1}), logits);
  CHECK(logits == std::array<float, 4>{2, -4, 3, 0});
}

TEST_CASE("Presence counts once, frequency each time, both only the output", "[penalties]") {
  std::array<float, 4> logits{4, 4, 4, 4};
  Penalties penalties;
  penalties.presence = 0.5F;
  penalties.frequency = 0.25F;
  apply_penalties(penalties, counts_of({0, 0}, {1, 1, 2}), logits);
  CHECK(logits == std::array<float, 4>{4, 3, 3.25F, 4});
}

TEST_CASE("Bias is added last, without a history too", "[penalties]") {
  std::array<float, 3> logits{4, 4, 4};
  Penalties penalties;
  penalties.bias_tokens = {0, 2, 9};  // 9 is outside: skipped
  penalties.biases = {-100.0F, 1.0F, 5.0F};
  CHECK_FALSE(penalties.need_history());
  CHECK(penalties.any());
  penalties.repetition = 2.0F;
  apply_penalties(penalties, counts_of({0, 7}, {}), logits);
  CHECK(logits == std::array<float, 3>{-98, 4, 5});
}
