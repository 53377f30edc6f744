// Same tokens, whatever the path: tiny models, every KV format and activation scheme, every ISA level of this machine.
#include "tests/runtime/exec/equality_cases.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <numeric>

using namespace troupe;

namespace {

constexpr TokenId kVocabulary = 320;

struct Scheme {
  const char* name;
  kernels::Activations activations;
  kernels::KvFormat kv_format;
  kernels::StorageType weights;
};
constexpr Scheme kSchemes[] = {
    {"int8, KV int8, Q4_1", kernels::Activations::kInt8Group32, kernels::KvFormat::kInt8, kernels::StorageType::kQ4_1},
    {"int8 a token, KV fp16, Q8_0", kernels::Activations::kInt8Token, kernels::KvFormat::kFp16, kernels::StorageType::kQ8_0},
    {"fp32, KV fp32, Q4_0", kernels::Activations::kFp32, kernels::KvFormat::kFp32, kernels::StorageType::kQ4_0},
    {"int8, KV fp32, F16", kernels::Activations::kInt8Group32, kernels::KvFormat::kFp32, kernels::StorageType::kF16},
};
/// Every combination of the lists: a new activation scheme or KV format is covered as it is.
std::vector<Scheme> all_schemes() {
  std::vector<Scheme> all;
  for (const kernels::Activations activations : kernels::kAllActivations)
    for (const kernels::KvFormat kv_format : kernels::kAllKvFormats)
      for (const kernels::StorageType weights : {kernels::StorageType::kQ4_1, kernels::StorageType::kBF16})
        all.push_back({"of the lists", activations, kv_format, weights});
  return all;
}

test::LoadedModel load(const Scheme& scheme, const std::string& isa, std::size_t threads = 1, std::size_t head_dim = 16) {
  test::TinyModelOptions tiny;
  tiny.head_dim = head_dim;
  tiny.type = scheme.weights;
  tiny.vocabulary = kVocabulary;
  return test::load_for_test(test::write_tiny_model(test::scratch_folder(), tiny), scheme.activations, isa, threads);
}

/// Calls body(scheme, level) for all of them; the scalar level is slow, so it comes with the first scheme only.
template <class Body>
void for_all(Body&& body) {
  for (const std::string& level : kernels::cpu_isa_levels()) {
    for (const Scheme& scheme : kSchemes) {
      if (level == "ref" && &scheme != &kSchemes[0]) continue;
      CAPTURE(level, scheme.name);
      body(scheme, level);
    }
  }
}

test::EqualityCase make(test::LoadedModel& model, const Scheme& scheme, std::size_t requests, std::size_t longest = 200,
                        std::uint32_t max_tokens = 12) {
  return test::make_case(model, scheme.kv_format, test::varied_requests(requests, longest, max_tokens, kVocabulary));
}

}  // namespace

TEST_CASE("Alone or in a batch of 32", "[equality]") {
  for_all([](const Scheme& scheme, const std::string& level) {
    test::LoadedModel model = load(scheme, level);
    test::check_batch(make(model, scheme, 32));
  });
}

TEST_CASE("Whole or in chunks", "[equality]") {
  for_all([](const Scheme& scheme, const std::string& level) {
    test::LoadedModel model = load(scheme, level);
    test::check_chunks(make(model, scheme, 6), {1, 2, 3, 5, 31, 32, 33, 63, 100, 256});
  });
}

TEST_CASE("Cold or from the prefix cache", "[equality]") {
  for_all([](const Scheme& scheme, const std::string& level) {
    test::LoadedModel model = load(scheme, level);
    test::check_prefix_cache(make(model, scheme, 10));
  });
}

TEST_CASE("Forked at every offset in a block", "[equality]") {
  for_all([](const Scheme& scheme, const std::string& level) {
    test::LoadedModel model = load(scheme, level);
    test::check_forks(make(model, scheme, 1), kVocabulary, 8);
  });
}

TEST_CASE("Preempted or not", "[equality]") {
  for_all([](const Scheme& scheme, const std::string& level) {
    test::LoadedModel model = load(scheme, level);
    // Short prompts that all fit, then grow to four blocks each.
    test::check_preemption(make(model, scheme, 8, 33, 80), 12);
  });
}

TEST_CASE("Before and after a change of epoch", "[equality]") {
  for_all([](const Scheme& scheme, const std::string& level) {
    test::LoadedModel model = load(scheme, level);
    test::check_epochs(make(model, scheme, 8), {1, 2, 5});
  });
}

TEST_CASE("Siblings alone or in a crowd", "[equality]") {
  for_all([](const Scheme& scheme, const std::string& level) {
    test::LoadedModel model = load(scheme, level);
    test::check_siblings(make(model, scheme, 10));
  });
}

TEST_CASE("On every ISA level, on one thread or more", "[equality][many]") {
  for (const Scheme& scheme : kSchemes) {
    CAPTURE(scheme.name);
    const std::vector<std::string> levels = kernels::cpu_isa_levels();
    test::LoadedModel best = load(scheme, levels.front());
    const test::EqualityCase wanted = make(best, scheme, 10);
    for (const std::string& level : levels) {
      for (const std::size_t threads : {1, 2, 3}) {
        CAPTURE(level, threads);
        test::LoadedModel model = load(scheme, level, threads);
        test::EqualityCase got = wanted;
        got.model = &model;
        test::check_batch(got);
      }
    }
  }
}

TEST_CASE("Every activation scheme and KV format, on every ISA level", "[equality]") {
  for (const Scheme& scheme : all_schemes()) {
    CAPTURE(static_cast<int>(scheme.activations), static_cast<int>(scheme.kv_format), static_cast<int>(scheme.weights));
    test::LoadedModel reference = load(scheme, "ref");
    const test::EqualityCase wanted = make(reference, scheme, 4, 40, 6);
    for (const std::string& level : kernels::cpu_isa_levels()) {
      CAPTURE(level);
      test::LoadedModel model = load(scheme, level, 2);
      test::EqualityCase got = wanted;
      got.model = &model;
      test::check_batch(got);
      test::check_chunks(got, {7});
    }
  }
}

TEST_CASE("Heads of sizes that have kernels of their own", "[equality][many]") {
  for (const std::size_t head_dim : {64, 80, 128})
    for (const Scheme& scheme : kSchemes) {
      CAPTURE(head_dim, scheme.name);
      test::LoadedModel reference = load(scheme, "ref", 1, head_dim);
      const test::EqualityCase wanted = make(reference, scheme, 5, 66, 6);
      for (const std::string& level : kernels::cpu_isa_levels()) {
        CAPTURE(level);
        test::LoadedModel model = load(scheme, level, 2, head_dim);
        test::EqualityCase got = wanted;
        got.model = &model;
        test::check_batch(got);
        if (level != "ref") test::check_chunks(got, {1, 33});
      }
    }
}

TEST_CASE("The tokens are worth comparing", "[equality]") {
  // A model that repeats one token, or ignores its prompt, would pass everything above.
  test::LoadedModel model = load(kSchemes[0], "");
  const test::EqualityCase c = make(model, kSchemes[0], 20);
  std::vector<TokenId> firsts;
  for (const auto& outputs : c.alone) {
    std::vector<TokenId> tokens = outputs[0].tokens;
    firsts.push_back(tokens[0]);
    std::sort(tokens.begin(), tokens.end());
    CHECK(std::unique(tokens.begin(), tokens.end()) - tokens.begin() >= 4);
  }
  std::sort(firsts.begin(), firsts.end());
  CHECK(std::unique(firsts.begin(), firsts.end()) - firsts.begin() >= 8);
}

TEST_CASE("Every chunk size from 1 to 512", "[equality][many]") {
  test::LoadedModel model = load(kSchemes[0], "");
  auto requests = test::varied_requests(1, 1, 6, kVocabulary);
  requests[0].prompt = test::varied_prompt(500, 3, kVocabulary);
  const test::EqualityCase c = test::make_case(model, kSchemes[0].kv_format, requests);
  std::vector<std::uint32_t> sizes(512);
  std::iota(sizes.begin(), sizes.end(), 1);
  test::check_chunks(c, sizes);
}
