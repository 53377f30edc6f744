// Perplexity of the default model on tests/data/eval: how much the 8-bit arithmetic costs against fp32 activations and K/V. Teacher-forced
// through the Executor, the whole text as one sequence. Needs the default model; see load_model.h.
#include "tests/runtime/exec/forced_run.h"
#include "tests/support/load_model.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <iostream>

using namespace troupe;

namespace {

struct Path {
  kernels::Activations activations = kernels::Activations::kInt8Group32;
  kernels::KvFormat kv_format = kernels::KvFormat::kInt8;
  kernels::WeightFormat weights = kernels::WeightFormat::kFile;
  bool operator==(const Path&) const = default;
};
constexpr Path kExact{kernels::Activations::kFp32, kernels::KvFormat::kFp32, kernels::WeightFormat::kFile};

const char* name_of(kernels::Activations activations) {
  switch (activations) {
    case kernels::Activations::kInt8Group32: return "int8";
    case kernels::Activations::kInt8Token: return "int8-token";
    case kernels::Activations::kBf16: return "bf16";
    case kernels::Activations::kFp32: return "fp32";
  }
  return "?";
}
const char* name_of(kernels::KvFormat format) {
  switch (format) {
    case kernels::KvFormat::kInt8: return "int8";
    case kernels::KvFormat::kFp16: return "fp16";
    case kernels::KvFormat::kFp32: return "fp32";
  }
  return "?";
}
const char* name_of(kernels::WeightFormat format) {
  switch (format) {
    case kernels::WeightFormat::kFile: return "the file's";
    case kernels::WeightFormat::kInt8Channel: return "int8-channel";
  }
  return "?";
}

/// Largest change of the perplexity against kExact, relative. The defaults are held to half a percent.
double bound(const Path& path) {
  if (path.weights == kernels::WeightFormat::kInt8Channel) return 0.10;
  switch (path.activations) {
    case kernels::Activations::kInt8Group32: return 0.005;
    case kernels::Activations::kInt8Token: return 0.05;
    case kernels::Activations::kBf16: return 0.005;
    case kernels::Activations::kFp32: return 0.005;
  }
  return 0;
}

double perplexity(const Path& path, const std::vector<TokenId>& tokens) {
  auto loaded = test::load_for_test(test::default_model_path(), path.activations, "", 0, path.weights);
  exec::Executor executor(*loaded.model, *loaded.backend, {test::blocks_for(tokens), path.kv_format, {}, true});
  executor.enter_epoch({1});
  return test::perplexity(test::token_logprobs(test::run_on(executor), {1}, tokens));
}

/// Compares paths with kExact and prints what it saw.
void check_paths(const std::vector<Path>& paths) {
  const std::vector<TokenId> tokens = test::eval_tokens();
  REQUIRE(tokens.size() > 2000);
  const double exact = perplexity(kExact, tokens);
  std::cout << "perplexity over " << tokens.size() << " tokens: fp32 " << exact << "\n";
  CHECK(exact > 5);  // a model that knows the text by heart, or ignores it, would make every path look alike
  CHECK(exact < 40);
  for (const Path& path : paths) {
    const double got = perplexity(path, tokens);
    const std::string name =
        std::string(name_of(path.weights)) + " weights, " + name_of(path.activations) + " activations, " + name_of(path.kv_format) + " K/V";
    std::cout << "  " << name << ": " << got << " (" << (got / exact - 1) * 100 << " %)\n";
    CAPTURE(name, got, exact);
    CHECK(std::abs(got / exact - 1) <= bound(path));
  }
}

}  // namespace

TEST_CASE("The default path's perplexity is that of fp32 within half a percent", "[perplexity]") { check_paths({{}}); }

TEST_CASE("Every path's perplexity is near that of fp32", "[perplexity][many]") {
  std::vector<Path> paths;
  for (const kernels::Activations activations : kernels::kAllActivations)
    for (const kernels::KvFormat kv_format : kernels::kAllKvFormats)
      for (const kernels::WeightFormat weights : kernels::kAllWeightFormats)
        if (const Path path{activations, kv_format, weights}; path != kExact) paths.push_back(path);
  check_paths(paths);
}
