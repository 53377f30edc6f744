// Ranks that work together give the same tokens whatever the path, at equal numbers of ranks and equal codec: alone or in a batch, whole or
// in chunks, overlapped or not and wherever a plan's rows are cut, from the cache, forked, before and after a change of epoch.
#include "tests/runtime/exec/equality_cases.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

using namespace troupe;
using kernels::WireFormat;

namespace {

constexpr TokenId kVocabulary = 320;
// Under a sanitizer one cut is like another.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kCutStep = 5;
#else
constexpr std::uint32_t kCutStep = 1;
#endif

struct Layout {
  base::ParallelShape shape;
  WireFormat codec = WireFormat::kBf16;
  bool slice_head = true;
};
const Layout kLayouts[] = {
    {{2, 1}, WireFormat::kInt8Group128}, {{3, 1}, WireFormat::kInt8Group32}, {{4, 1}, WireFormat::kBf16, false},
    {{1, 2}, WireFormat::kBf16},         {{1, 3}, WireFormat::kFp32},        {{2, 2}, WireFormat::kInt8Group128, false},
};

/// Three layers, so that three stages have one each, and the last of them begins with the segment that narrows. K/V heads that divide
/// among three ranks, or that four have to share.
std::filesystem::path model_file(const base::ParallelShape& shape) {
  test::TinyModelOptions tiny;
  tiny.layers = 3;
  tiny.head_dim = 32;
  tiny.q_heads = shape.tensor_ranks == 3 ? 6 : 4;
  tiny.kv_heads = shape.tensor_ranks == 3 ? 3 : 2;
  tiny.ffn = 128;
  tiny.vocabulary = kVocabulary;
  return test::write_tiny_model(test::scratch_folder(), tiny);
}

test::LoadedModel load(const Layout& layout) {
  test::GroupLoad group;
  group.shape = layout.shape;
  group.codec = layout.codec;
  group.slice_head = layout.slice_head;
  return test::load_group_for_test(model_file(layout.shape), group);
}

template <class Body>
void for_all(Body&& body) {
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.shape.tensor_ranks, layout.shape.stages, static_cast<int>(layout.codec));
    test::LoadedModel model = load(layout);
    body(model);
  }
}

test::EqualityCase make(test::LoadedModel& model, std::size_t requests, std::uint32_t max_tokens = 8) {
  return test::make_case(model, kernels::KvFormat::kInt8, test::varied_requests(requests, 100, max_tokens, kVocabulary));
}

}  // namespace

TEST_CASE("Ranks: alone or in a batch", "[parallel]") {
  for_all([](test::LoadedModel& model) { test::check_batch(make(model, 12)); });
}

TEST_CASE("Ranks: whole or in chunks", "[parallel]") {
  for_all([](test::LoadedModel& model) { test::check_chunks(make(model, 4), {5, 33, 64}); });
}

TEST_CASE("Ranks: cold or from the prefix cache", "[parallel][plain]") {
  for_all([](test::LoadedModel& model) { test::check_prefix_cache(make(model, 5, 5)); });
}

TEST_CASE("Ranks: siblings, forks of a row", "[parallel][plain]") {
  for_all([](test::LoadedModel& model) { test::check_siblings(make(model, 5, 5)); });
}

TEST_CASE("Ranks: preempted or not", "[parallel][plain]") {
  for_all([](test::LoadedModel& model) {
    test::check_preemption(test::make_case(model, kernels::KvFormat::kInt8, test::varied_requests(5, 33, 45, kVocabulary)), 7);
  });
}

TEST_CASE("Ranks: before and after a change of epoch", "[parallel]") {
  for_all([](test::LoadedModel& model) { test::check_epochs(make(model, 5), {1, 3}); });
}

TEST_CASE("Ranks: forked at every offset in a block", "[parallel][many]") {
  for_all([](test::LoadedModel& model) { test::check_forks(make(model, 1), kVocabulary, 5); });
}

TEST_CASE("Ranks: overlapped or not, and wherever the rows are cut", "[parallel]") {
  for_all([](test::LoadedModel& model) {
    const test::EqualityCase c = test::make_case(model, kernels::KvFormat::kInt8, test::varied_requests(4, 40, 3, kVocabulary));
    // Plans of several runs, prompts in chunks and rows of decoding beside them; each of their rows begins the second part once, and some
    // begin the third and the fourth.
    for (std::uint32_t cut = 0; cut < 24; cut += kCutStep) {
      CAPTURE(cut);
      test::LoopOptions options;
      options.token_budget = 24;
      options.cuts = [cut](const plan::ForwardPlan& plan) {
        const auto rows = static_cast<std::uint32_t>(plan.tokens.size());
        std::vector<std::uint32_t> cuts;
        for (std::uint32_t at = cut % rows; at > 0 && at < rows && cuts.size() < 1 + cut % 3; at += 1 + cut % 5) cuts.push_back(at);
        return cuts;
      };
      test::EngineLoop loop(model, options);
      std::vector<RequestId> ids;
      for (const test::LoopRequest& request : c.requests) ids.push_back(loop.submit(request));
      loop.run();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        CAPTURE(i);
        CHECK(test::difference(loop.outputs(ids[i])[0], c.alone[i][0]) == "");
      }
      CHECK_NOTHROW(loop.check_idle());
    }
  });
}

TEST_CASE("Ranks: where the head is cut changes no bit", "[parallel][plain]") {
  for (const base::ParallelShape shape : {base::ParallelShape{2, 1}, {3, 1}, {2, 2}}) {
    test::LoadedModel cut = load({shape, WireFormat::kBf16, true}), whole = load({shape, WireFormat::kBf16, false});
    test::EqualityCase c = make(cut, 6);
    c.model = &whole;
    test::check_batch(c);
  }
}

TEST_CASE("Ranks: stages that exchange fp32 rows give the bits of one rank", "[parallel][plain]") {
  for (const base::ParallelShape shape : {base::ParallelShape{1, 2}, {1, 3}}) {
    CAPTURE(shape.stages);
    test::LoadedModel one = test::load_for_test(model_file(shape)), many = load({shape, WireFormat::kFp32});
    test::EqualityCase c = make(one, 8);
    c.model = &many;
    test::check_batch(c);
    test::check_chunks(c, {7, 50});
  }
}

TEST_CASE("Ranks: exact sums of ranks are close to one rank", "[parallel][plain]") {
  // fp32 on the wire and in the products: only the order of sums differs, so greedy tokens agree but for ties.
  for (const base::ParallelShape shape : {base::ParallelShape{2, 1}, {4, 1}, {1, 3}, {2, 2}}) {
    CAPTURE(shape.tensor_ranks, shape.stages);
    const auto path = model_file(shape);
    test::LoadedModel one = test::load_for_test(path, kernels::Activations::kFp32);
    test::GroupLoad load;
    load.shape = shape;
    load.activations = kernels::Activations::kFp32;
    test::LoadedModel many = test::load_group_for_test(path, load);
    for (const std::size_t length : {1, 33, 80}) {
      test::LoopRequest request;
      request.prompt = test::varied_prompt(length, length, kVocabulary);
      request.max_tokens = 6;
      request.sampling.temperature = 0.0F;
      request.sampling.top_logprobs = 2;
      test::LoopOptions options;
      options.kv_format = kernels::KvFormat::kFp32;
      const auto wanted = test::EngineLoop(one, options).generate(request), got = test::EngineLoop(many, options).generate(request);
      for (std::size_t i = 0; i < wanted[0].tokens.size(); ++i) {
        CAPTURE(length, i);
        const float margin = wanted[0].logprobs.logprobs[2 * i] - wanted[0].logprobs.logprobs[2 * i + 1];
        if (wanted[0].tokens[i] != got[0].tokens[i]) {
          CHECK(margin < 1e-2F);
          break;
        }
        CHECK(got[0].logprobs.chosen[i] == Approx(wanted[0].logprobs.chosen[i]).margin(1e-2));
      }
    }
  }
}
