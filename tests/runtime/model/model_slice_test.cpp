// Which part of a model a rank holds: over the ranks every part is there exactly once, as evenly as it goes, and cut where formats allow.
#include "runtime/model/model_slice.h"

#include <catch2/catch.hpp>

#include <set>
#include <vector>

using namespace troupe;
using model::ModelSlice;
using model::Range;

namespace {

model::ModelConfig config(std::size_t q_heads, std::size_t kv_heads, std::size_t head_dim = 64) {
  model::ModelConfig config;
  config.layers = 7;
  config.hidden = q_heads * head_dim;
  config.q_heads = q_heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  config.ffn = 352;  // 11 units
  config.vocabulary = 1003;
  return config;
}

model::LoadPart part(std::size_t tensor_ranks, std::size_t stages, std::size_t rank, bool slice_head = true) {
  return {{{static_cast<std::uint16_t>(tensor_ranks), static_cast<std::uint16_t>(stages)}, static_cast<std::uint16_t>(rank)}, slice_head};
}

std::vector<ModelSlice> slices(const model::ModelConfig& config, std::size_t tensor_ranks, std::size_t stages, bool slice_head = true) {
  std::vector<ModelSlice> all;
  for (std::size_t rank = 0; rank < tensor_ranks * stages; ++rank) {
    auto slice = model::slice_model(config, part(tensor_ranks, stages, rank, slice_head));
    if (!slice) FAIL(slice.error().client_text);
    all.push_back(*slice);
  }
  return all;
}

/// Ranges that follow each other from 0 to `count`, none empty.
void check_covers(const std::vector<Range>& ranges, std::size_t count) {
  std::size_t next = 0;
  for (const Range& range : ranges) {
    CHECK(range.first == next);
    CHECK(range.count > 0);
    next = range.end();
  }
  CHECK(next == count);
}

/// Largest minus smallest, in units.
std::size_t spread(const std::vector<Range>& ranges, std::size_t unit) {
  std::size_t most = 0, least = SIZE_MAX;
  for (const Range& range : ranges) {
    const std::size_t units = (range.count + unit - 1) / unit;
    most = std::max(most, units);
    least = std::min(least, units);
  }
  return most - least;
}

void check_refused(const model::ModelConfig& config, std::size_t tensor_ranks, std::size_t stages, const std::vector<std::string>& words) {
  const auto slice = model::slice_model(config, part(tensor_ranks, stages, 0));
  REQUIRE_FALSE(slice.ok());
  INFO(slice.error().client_text);
  for (const std::string& word : words) CHECK(slice.error().client_text.find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("The ranks of a group hold all of a model, each part once", "[slice]") {
  const std::vector<std::pair<std::size_t, std::size_t>> shapes{{9, 3}, {4, 2}, {8, 8}, {8, 1}, {6, 2}, {32, 8}, {12, 12}};
  for (const auto& [q_heads, kv_heads] : shapes)
    for (const std::size_t tensor_ranks : {1, 2, 3, 4})
      for (const std::size_t stages : {1, 2, 3}) {
        CAPTURE(q_heads, kv_heads, tensor_ranks, stages);
        const model::ModelConfig whole = config(q_heads, kv_heads);
        const auto all = slices(whole, tensor_ranks, stages);
        std::vector<Range> layers;
        for (std::size_t stage = 0; stage < stages; ++stage) {
          const std::vector<ModelSlice> ranks(all.begin() + static_cast<std::ptrdiff_t>(stage * tensor_ranks),
                                              all.begin() + static_cast<std::ptrdiff_t>((stage + 1) * tensor_ranks));
          layers.push_back(ranks.front().layers);
          std::vector<Range> heads, ffn, vocabulary;
          std::set<std::size_t> kv;
          for (const ModelSlice& slice : ranks) {
            CHECK(slice.layers == ranks.front().layers);
            CHECK(slice.embeds == (stage == 0));
            CHECK(slice.has_head == (stage + 1 == stages));
            heads.push_back(slice.q_heads);
            ffn.push_back(slice.ffn);
            if (slice.has_head) vocabulary.push_back(slice.vocabulary);
            // Each q head finds its kv head here, and the q heads divide evenly over the kv heads, as attention wants it.
            const std::size_t group = q_heads / kv_heads;
            CHECK(slice.q_heads.first / group == slice.kv_heads.first);
            CHECK((slice.q_heads.end() - 1) / group + 1 == slice.kv_heads.end());
            CHECK(slice.q_heads.count % slice.kv_heads.count == 0);
            for (std::size_t head = slice.kv_heads.first; head < slice.kv_heads.end(); ++head) {
              if (tensor_ranks <= kv_heads) CHECK(kv.count(head) == 0);  // shared only where there are too few
              kv.insert(head);
            }
          }
          CHECK(kv.size() == kv_heads);
          check_covers(heads, q_heads);
          check_covers(ffn, whole.ffn);
          CHECK(spread(ffn, 32) <= 1);
          CHECK(spread(heads, q_heads / kv_heads) <= 1);
          if (stage + 1 < stages) continue;
          check_covers(vocabulary, whole.vocabulary);
          CHECK(spread(vocabulary, 48) <= 1);
        }
        check_covers(layers, whole.layers);
        CHECK(spread(layers, 1) <= 1);
        CHECK(layers.back().count == whole.layers / stages);  // the head is there, too
      }
}

TEST_CASE("SmolLM2's nine heads over three kv heads", "[slice]") {
  const model::ModelConfig smol = config(9, 3);
  const auto two = slices(smol, 2, 1);
  CHECK(two[0].q_heads == Range{0, 6});
  CHECK(two[1].q_heads == Range{6, 3});
  const auto four = slices(smol, 4, 1);  // the first kv head is shared
  CHECK(four[0].q_heads == Range{0, 2});
  CHECK(four[0].kv_heads == Range{0, 1});
  CHECK(four[1].q_heads == Range{2, 1});
  CHECK(four[1].kv_heads == Range{0, 1});
  CHECK(four[2].q_heads == Range{3, 3});
  CHECK(four[3].kv_heads == Range{2, 1});
  CHECK(slices(smol, 9, 1)[8].q_heads == Range{8, 1});
}

TEST_CASE("The head is whole on the sampling rank where it is not divided", "[slice]") {
  const auto all = slices(config(4, 2), 2, 2, false);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    CHECK(all[rank].has_head == (rank == 2));
    CHECK(all[rank].vocabulary == Range{0, rank == 2 ? 1003u : 0u});
  }
}

TEST_CASE("Matrices are cut between blocks of their format", "[slice]") {
  model::ModelConfig q6k = config(12, 6);
  q6k.ffn = 2048;
  q6k.attended_unit = q6k.ffn_unit = 256;
  for (const std::size_t tensor_ranks : {2, 3}) {
    for (const ModelSlice& slice : slices(q6k, tensor_ranks, 1)) {
      CHECK(slice.q_heads.first * 64 % 256 == 0);
      CHECK(slice.q_heads.count * 64 % 256 == 0);
      CHECK(slice.ffn.first % 256 == 0);
      CHECK(slice.ffn.count % 256 == 0);
    }
  }
  check_refused(q6k, 4, 1, {"tensor-parallel: 4", "attn_output.weight", "256"});
  q6k.ffn = 512;
  check_refused(q6k, 3, 1, {"tensor-parallel: 3", "ffn_down.weight", "256", "feed_forward_length is 512"});
  // Narrow heads: two of 16 make a group of activations.
  const auto narrow = slices(config(8, 1, 16), 3, 1);
  CHECK(narrow[0].q_heads == Range{0, 4});
  CHECK(narrow[1].q_heads == Range{4, 2});
  check_refused(config(4, 2, 16), 4, 1, {"tensor-parallel: 4", "attn_output.weight", "32 inputs"});
  check_refused(config(12, 4, 16), 5, 1, {"tensor-parallel: 5", "attn_output.weight"});  // groups of three end within 32 inputs
}

TEST_CASE("More ranks than there is to divide", "[slice]") {
  check_refused(config(9, 3), 10, 1, {"tensor-parallel: 10", "attention.head_count is 9"});
  check_refused(config(4, 4), 5, 1, {"tensor-parallel: 5", "attention.head_count is 4"});
  check_refused(config(32, 8), 12, 1, {"tensor-parallel: 12", "feed_forward_length is 352"});
  check_refused(config(9, 3), 1, 8, {"pipeline-parallel: 8", "block_count is 7"});
  model::ModelConfig words = config(4, 4);
  words.vocabulary = 3;
  check_refused(words, 4, 1, {"tensor-parallel: 4", "token_embd.weight has 3 rows"});
  words.vocabulary = 101;  // fewer than a panel a rank
  std::vector<Range> vocabulary;
  for (const ModelSlice& slice : slices(words, 4, 1)) vocabulary.push_back(slice.vocabulary);
  check_covers(vocabulary, 101);
}

TEST_CASE("Parts have names of their own, the whole has none", "[slice]") {
  CHECK(model::part_name(part(1, 1, 0)).empty());
  std::set<std::string> names;
  for (const auto& p : {part(2, 1, 0), part(2, 1, 1), part(1, 2, 0), part(1, 2, 1), part(2, 2, 0), part(2, 1, 0, false)})
    names.insert(model::part_name(p));
  CHECK(names.size() == 6);
}
