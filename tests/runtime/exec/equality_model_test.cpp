// Same tokens, whatever the path: the default model on the fastest level. Needs the model; see load_model.h.
#include "tests/runtime/exec/equality_cases.h"

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("The default model gives the same tokens on every path", "[equality_model]") {
  constexpr TokenId kVocabulary = 49152;
  test::LoadedModel model = test::load_for_test(test::default_model_path(), kernels::Activations::kInt8Group32, "", 0);
  const auto make = [&](std::size_t requests, std::size_t longest, std::uint32_t max_tokens = 10) {
    return test::make_case(model, kernels::KvFormat::kInt8, test::varied_requests(requests, longest, max_tokens, kVocabulary));
  };
  SECTION("batch of 32") { test::check_batch(make(32, 100)); }
  SECTION("chunks") { test::check_chunks(make(3, 100), {1, 7, 32, 33, 100, 512}); }
  SECTION("prefix cache") { test::check_prefix_cache(make(5, 100)); }
  SECTION("forks") { test::check_forks(make(1, 10), kVocabulary, 4); }
  SECTION("preemption") { test::check_preemption(make(6, 33, 80), 10); }
  SECTION("epochs") { test::check_epochs(make(6, 64), {1, 3}); }
  SECTION("siblings") { test::check_siblings(make(5, 64)); }
}
