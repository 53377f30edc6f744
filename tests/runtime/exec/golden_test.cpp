// SmolLM2 against an fp32 reference (tests/data/golden). Needs the default model; see load_model.h.
#include "tests/runtime/exec/forced_run.h"
#include "tests/support/load_model.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <iostream>

using namespace troupe;

namespace {

constexpr std::size_t kBlocks = 64, kChunk = 256;

nlohmann::json llama_cpp_figures() {
  std::ifstream file(TROUPE_TEST_DATA "/golden/llama_cpp_agreement.json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("fp32 activations and KV: the reference's tokens and log-probabilities", "[golden]") {
  // The reference itself is fp32: where two tokens are nearer than this, either is right.
  constexpr double kTie = 1e-3, kTolerance = 2e-3;
  auto loaded = test::load_for_test(test::default_model_path(), kernels::Activations::kFp32, "", 0);
  exec::Executor executor(*loaded.model, *loaded.backend, {kBlocks, kernels::KvFormat::kFp32, {}, true});
  std::uint32_t epoch = 0;
  double largest = 0;
  for (const test::GoldenCase& golden : test::read_golden()) {
    CAPTURE(golden.id);
    executor.enter_epoch({++epoch});
    const auto got = test::run_forced(test::run_on(executor), {epoch}, golden, kChunk);
    for (std::size_t i = 0; i < golden.steps.size(); ++i) {
      CAPTURE(i, golden.steps[i].margin);
      if (golden.steps[i].margin >= kTie) CHECK(got[i].best == golden.steps[i].best);
      for (std::size_t k = 0; k < golden.steps[i].top.size(); ++k) {
        const double error = std::abs(static_cast<double>(got[i].logprobs[k]) - golden.steps[i].logprobs[k]);
        CHECK(error <= kTolerance);
        largest = std::max(largest, error);
      }
    }
  }
  std::cout << "fp32: largest error of a top-5 log-probability " << largest << "\n";
}

TEST_CASE("int8 activations and KV: no further from the reference than llama.cpp", "[golden]") {
  // Only a clear lead of the reference's best token is beyond the noise of 8 bits.
  constexpr double kClear = 1.0;
  auto loaded = test::load_for_test(test::default_model_path(), kernels::Activations::kInt8Group32, "", 0);
  exec::Executor executor(*loaded.model, *loaded.backend, {kBlocks, kernels::KvFormat::kInt8, {}, true});
  test::Agreement agreement;
  std::uint32_t epoch = 0;
  for (const test::GoldenCase& golden : test::read_golden()) {
    executor.enter_epoch({++epoch});
    agreement.add(golden, test::run_forced(test::run_on(executor), {epoch}, golden, kChunk));
  }
  const auto theirs = llama_cpp_figures();
  REQUIRE(theirs.at("steps").get<std::size_t>() == agreement.steps);
  const double their_top1 = theirs.at("top1_agreement").get<double>(), their_error = theirs.at("mean_top5_error").get<double>();
  std::cout << "int8: top-1 agreement " << agreement.top1() << " (llama.cpp " << their_top1 << "), mean top-5 error "
            << agreement.mean_error() << " (llama.cpp " << their_error << "), clearest disagreement at margin "
            << agreement.largest_disagreement << "\n";
  CHECK(agreement.top1() >= their_top1);
  CHECK(agreement.mean_error() <= their_error);
  CHECK(agreement.largest_disagreement <= kClear);
}
