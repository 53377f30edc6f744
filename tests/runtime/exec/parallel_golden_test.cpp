// SmolLM2 (nine heads over three kv heads) cut over ranks in one process: the golden prompts come out as from one rank wherever the
// reference leaves no doubt, and what rows lose on the wire costs next to no perplexity. Needs the default model; see load_model.h.
#include "runtime/collective/codec_table.h"
#include "tests/runtime/exec/forced_run.h"
#include "tests/support/load_model.h"
#include "tests/support/shard_group.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <iostream>
#include <optional>

using namespace troupe;
using kernels::Activations;
using kernels::KvFormat;
using kernels::WireFormat;

namespace {

constexpr std::size_t kBlocks = 64, kChunk = 256;

struct Arithmetic {
  Activations activations = Activations::kInt8Group32;
  KvFormat kv_format = KvFormat::kInt8;
  WireFormat codec = WireFormat::kFp32;  // void with one rank
};

test::RunPlan run_on(test::ShardGroup& group) {
  return [&group](const plan::ForwardPlan& plan) { return group.run(plan); };
}

std::string name_of(const base::ParallelShape& shape) {
  return "tp " + std::to_string(shape.tensor_ranks) + ", pp " + std::to_string(shape.stages);
}

test::LoadedModel load(const base::ParallelShape& shape, const Arithmetic& arithmetic) {
  return test::load_group_for_test(test::default_model_path(), {shape, arithmetic.codec, arithmetic.activations});
}

std::vector<std::vector<test::ForcedStep>> run_cases(const std::vector<test::GoldenCase>& cases, const base::ParallelShape& shape,
                                                     const Arithmetic& arithmetic) {
  test::LoadedModel model = load(shape, arithmetic);
  test::ShardGroup group(model, {kBlocks, arithmetic.kv_format, true, {}});
  std::vector<std::vector<test::ForcedStep>> all;
  for (const test::GoldenCase& golden : cases) {
    const GroupEpoch epoch{static_cast<std::uint32_t>(all.size() + 1)};
    group.enter_epoch(epoch);
    all.push_back(test::run_forced(run_on(group), epoch, golden, kChunk));
  }
  return all;
}

/// Steps whose best token is not that of one rank, though the reference's lead is `clear` or more; and the largest change of a
/// log-probability.
struct Change {
  std::size_t steps = 0, otherwise = 0, clearly_otherwise = 0;
  double largest = 0;
};
Change change(const std::vector<test::GoldenCase>& cases, const std::vector<std::vector<test::ForcedStep>>& one,
              const std::vector<std::vector<test::ForcedStep>>& many, double clear) {
  Change change;
  for (std::size_t c = 0; c < cases.size(); ++c)
    for (std::size_t i = 0; i < cases[c].steps.size(); ++i) {
      ++change.steps;
      if (one[c][i].best != many[c][i].best) {
        ++change.otherwise;
        change.clearly_otherwise += cases[c].steps[i].margin >= clear;
      }
      for (std::size_t k = 0; k < one[c][i].logprobs.size(); ++k)
        change.largest =
            std::max(change.largest, std::abs(static_cast<double>(one[c][i].logprobs[k]) - static_cast<double>(many[c][i].logprobs[k])));
    }
  return change;
}

constexpr Arithmetic kExact{Activations::kFp32, KvFormat::kFp32, WireFormat::kFp32};
constexpr Arithmetic kBf16Wire{Activations::kInt8Group32, KvFormat::kInt8, WireFormat::kBf16};
constexpr Arithmetic kInt8Wire{Activations::kInt8Group32, KvFormat::kInt8, WireFormat::kInt8Group128};

void check_shapes(const std::vector<base::ParallelShape>& shapes, const std::vector<Arithmetic>& arithmetics, std::size_t most_cases) {
  // As in golden_test.cpp: a tie of the fp32 reference, and a lead beyond the noise of 8 bits.
  constexpr double kTie = 1e-3, kClear = 1.0, kTolerance = 2e-3;
  std::vector<test::GoldenCase> cases = test::read_golden();
  if (cases.size() > most_cases) cases.resize(most_cases);
  for (const Arithmetic& arithmetic : arithmetics) {
    const bool is_exact = arithmetic.codec == WireFormat::kFp32;
    const auto one = run_cases(cases, {}, arithmetic);
    for (const base::ParallelShape& shape : shapes) {
      const Change got = change(cases, one, run_cases(cases, shape, arithmetic), is_exact ? kTie : kClear);
      std::cout << name_of(shape) << (is_exact ? ", fp32, " : ", int8, ") << collective::codec_name(arithmetic.codec)
                << " on the wire: " << got.otherwise << " of " << got.steps
                << " steps otherwise than one rank, largest change of a log-probability " << got.largest << "\n";
      CAPTURE(name_of(shape), is_exact);
      CHECK(got.steps > 100);
      CHECK(got.clearly_otherwise == 0);
      if (is_exact) CHECK(got.largest <= kTolerance);
    }
  }
}

std::vector<float> token_logprobs(const base::ParallelShape& shape, const Arithmetic& arithmetic, const std::vector<TokenId>& tokens) {
  test::LoadedModel model = load(shape, arithmetic);
  test::ShardGroup group(model, {test::blocks_for(tokens), arithmetic.kv_format, false, {}});
  group.enter_epoch({1});
  return test::token_logprobs(run_on(group), {1}, tokens);
}

/// How log-probabilities of the same tokens differ. Neighbours' changes do not correlate, so the mean's standard error is that of
/// independent values.
struct Difference {
  double mean = 0, uncertainty = 0;  // of the mean; minus the relative change of the perplexity
  double noise = 0;                  // root mean square: what one token feels
};
Difference difference(const std::vector<float>& exact, const std::vector<float>& got) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double change = static_cast<double>(got[i]) - static_cast<double>(exact[i]);
    sum += change;
    squares += change * change;
  }
  const auto count = static_cast<double>(exact.size());
  return {sum / count, std::sqrt(squares - sum * sum / count) / count, std::sqrt(squares / count)};
}

/// Most noise of a token's log-probability that is allowed; absent: an experiment. It tells codecs apart on a text of this length, which
/// the perplexity does not.
std::optional<double> most_noise(WireFormat codec) {
  switch (codec) {
    case WireFormat::kFp32: return 1e-4;
    case WireFormat::kBf16: return 0.02;
    case WireFormat::kInt8Group128: return 0.12;
    case WireFormat::kInt8Group32: return 0.08;
    case WireFormat::kInt6Group32:
    case WireFormat::kInt4Group32: return std::nullopt;
  }
  return std::nullopt;
}

/// Against one rank. All else is fp32: with 8-bit activations the least change of a value, also one rank more without a codec, moves the
/// perplexity of a text this short by 0.3 %.
void check_codec(const base::ParallelShape& shape, WireFormat codec, const std::vector<float>& exact, const std::vector<TokenId>& tokens) {
  const Difference got = difference(exact, token_logprobs(shape, {Activations::kFp32, KvFormat::kFp32, codec}, tokens));
  const double more = -got.mean * 100;  // perplexity, per cent
  std::cout << "  " << name_of(shape) << ", " << collective::codec_name(codec) << " on the wire: perplexity " << std::showpos << more
            << std::noshowpos << " (+- " << got.uncertainty * 100 << ") %, noise of a log-probability " << got.noise << "\n";
  CAPTURE(name_of(shape), collective::codec_name(codec), got.noise);
  if (const auto most = most_noise(codec)) {
    CHECK(got.noise < *most);
    CHECK(std::abs(got.mean) - 2 * got.uncertainty < 0.005);
  }
}

std::vector<float> logprobs_of_one(const std::vector<TokenId>& tokens) {
  std::vector<float> exact = token_logprobs({}, {Activations::kFp32, KvFormat::kFp32, WireFormat::kFp32}, tokens);
  std::cout << "perplexity over " << tokens.size() << " tokens, one rank, fp32: " << test::perplexity(exact) << "\n";
  return exact;
}

}  // namespace

TEST_CASE("The golden prompts come out alike from one rank and from several", "[parallel]") {
  check_shapes({{2, 1}, {3, 1}, {2, 2}}, {kExact, kInt8Wire}, 3);
}

TEST_CASE("All golden prompts on every shape", "[parallel][many]") {
  check_shapes({{2, 1}, {3, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 3}}, {kExact, kBf16Wire, kInt8Wire}, SIZE_MAX);
}

TEST_CASE("Eight bits on the wire change the perplexity by less than half a percent", "[parallel]") {
  std::vector<TokenId> tokens = test::eval_tokens();
  tokens.resize(1280);
  check_codec({2, 1}, WireFormat::kInt8Group128, logprobs_of_one(tokens), tokens);
}

TEST_CASE("What every codec costs", "[parallel][many]") {
  const std::vector<TokenId> tokens = test::eval_tokens();
  const std::vector<float> exact = logprobs_of_one(tokens);
  for (const base::ParallelShape& shape : {base::ParallelShape{2, 1}, base::ParallelShape{4, 1}, base::ParallelShape{2, 2}})
    for (const collective::CodecRow& codec : collective::codecs()) check_codec(shape, codec.format, exact, tokens);
}
