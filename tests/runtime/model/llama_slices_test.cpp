// A model cut over ranks, all in this process: addends sum to those of the whole, stages follow each other with the same bits, slices of
// the head lie side by side with the same bits, and a rank reads its part of the file only. Then the last layer's narrowing.
#include "runtime/model/model.h"
#include "runtime/model/row_buffer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <fstream>

using namespace troupe;
using kernels::Output;

namespace {

constexpr std::uint32_t kBlocks = 4;

struct Rank {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<kernels::KvCache> kv;
};

std::shared_ptr<const weights::GgufFile> open_model(const test::TinyModelOptions& options) {
  auto file = weights::GgufFile::open(test::write_tiny_model(test::scratch_folder(), options));
  REQUIRE(file.ok());
  return *file;
}

std::unique_ptr<kernels::Backend> make_backend(kernels::Activations activations) {
  kernels::CpuOptions options;
  options.threads = 1;
  options.pin = false;
  options.spin_us = 0;
  options.activations = activations;
  return kernels::make_cpu_backend(options);
}

model::LoadPart part_of(std::size_t tensor_ranks, std::size_t stages, std::size_t rank, bool slice_head = true) {
  return {{{static_cast<std::uint16_t>(tensor_ranks), static_cast<std::uint16_t>(stages)}, static_cast<std::uint16_t>(rank)}, slice_head};
}

Rank load(const std::shared_ptr<const weights::GgufFile>& file, kernels::Activations activations, const model::LoadPart& part) {
  Rank rank;
  rank.backend = make_backend(activations);
  auto model = model::load_model(file, *rank.backend, {}, nullptr, part);
  if (!model) FAIL(model.error().client_text);
  rank.model = std::move(*model);
  const bool exact = activations == kernels::Activations::kFp32;
  const model::ModelSlice& slice = rank.model->slice();
  rank.kv = rank.backend->make_kv_cache({slice.layers.count, slice.kv_heads.count, rank.model->config().head_dim, kBlocks,
                                         exact ? kernels::KvFormat::kFp32 : kernels::KvFormat::kInt8, !exact});
  return rank;
}

/// Two sequences: 37 rows in two runs, and 3.
struct Batch {
  static constexpr std::size_t kRows = 40;
  std::vector<std::uint32_t> blocks{1, 0, 3};
  std::vector<kernels::SequenceRows> sequences{{0, 20, 0, blocks.data()}, {20, 17, 20, blocks.data()}, {37, 3, 0, blocks.data() + 2}};
  std::vector<TokenId> tokens;
  Batch() {
    for (std::size_t i = 0; i < kRows; ++i) tokens.push_back(static_cast<TokenId>((i * 37 + 11) % 259));
  }
  model::Chunk chunk() const { return {sequences, kRows}; }
};

double difference(kernels::Rows a, kernels::Rows b) {
  REQUIRE(a.count == b.count);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.count; ++i)
    for (std::size_t k = 0; k < a.width; ++k) {
      error += std::pow(static_cast<double>(a.row(i)[k]) - static_cast<double>(b.row(i)[k]), 2);
      size += std::pow(static_cast<double>(b.row(i)[k]), 2);
    }
  return std::sqrt(error / size);
}

bool same_bits(kernels::Rows a, kernels::Rows b) {
  for (std::size_t i = 0; i < a.count; ++i)
    if (std::memcmp(a.row(i), b.row(i), a.width * sizeof(float)) != 0) return false;
  return a.count == b.count;
}

/// Bytes that this thread has read from files.
std::size_t bytes_read() {
  std::ifstream io("/proc/thread-self/io");
  std::string name;
  std::size_t bytes = 0;
  io >> name >> bytes;
  REQUIRE(name == "rchar:");
  return bytes;
}

/// All segments over `stages` of ranks, each fed with the residual stream of the whole model.
void check_segments(Rank& whole, std::vector<Rank>& ranks, std::size_t tensor_ranks, double tolerance) {
  const Batch batch;
  const std::size_t hidden_size = whole.model->config().hidden;
  model::RowBuffer hidden_rows(hidden_size), addend_rows(hidden_size), sum_rows(hidden_size), part_rows(hidden_size);
  const kernels::Rows hidden = hidden_rows.rows(Batch::kRows), addend = addend_rows.rows(Batch::kRows);
  const kernels::Rows sum = sum_rows.rows(Batch::kRows), part = part_rows.rows(Batch::kRows);
  whole.model->embed(batch.tokens, hidden);
  std::size_t segments = 0;
  for (std::size_t first = 0; first < ranks.size(); first += tensor_ranks) {
    if (first == 0) {
      ranks[0].model->embed(batch.tokens, part);
      CHECK(same_bits(part, hidden));
    }
    for (std::size_t segment = 0; segment < ranks[first].model->num_segments(); ++segment, ++segments) {
      CAPTURE(segments);
      whole.model->run_segment(segments, batch.chunk(), hidden, *whole.kv, addend, Output::kStore);
      for (std::size_t rank = first; rank < first + tensor_ranks; ++rank) {
        Rank& one = ranks[rank];
        CHECK(one.model->narrows(segment) == whole.model->narrows(segments));
        one.model->run_segment(segment, batch.chunk(), hidden, *one.kv, rank == first ? sum : part, Output::kStore);
        if (rank > first) whole.backend->add(sum, part);
      }
      CHECK(difference(sum, addend) <= tolerance);
      if (tensor_ranks == 1) CHECK(same_bits(sum, addend));
      whole.backend->add(hidden, addend);
    }
  }
  CHECK(segments == whole.model->num_segments());

  const std::size_t vocabulary = whole.model->config().vocabulary;
  model::RowBuffer logits_rows(vocabulary), gathered_rows(vocabulary);
  const kernels::Rows logits = logits_rows.rows(Batch::kRows), gathered = gathered_rows.rows(Batch::kRows);
  whole.model->logits(hidden, logits);
  std::size_t columns = 0;
  for (Rank& rank : ranks) {
    const model::Range range = rank.model->slice().vocabulary;
    if (!rank.model->slice().has_head) continue;
    rank.model->logits(hidden, {gathered.data + range.first, gathered.count, range.count, gathered.stride});
    columns += range.count;
  }
  CHECK(columns == vocabulary);
  CHECK(same_bits(gathered, logits));
}

void check_group(const test::TinyModelOptions& options, std::size_t tensor_ranks, std::size_t stages, kernels::Activations activations) {
  const auto file = open_model(options);
  Rank whole = load(file, activations, {});
  std::vector<Rank> ranks;
  for (std::size_t rank = 0; rank < tensor_ranks * stages; ++rank)
    ranks.push_back(load(file, activations, part_of(tensor_ranks, stages, rank)));
  // Groups of activations are never cut, so that only the order of a few float sums differs.
  check_segments(whole, ranks, tensor_ranks, activations == kernels::Activations::kInt8Token ? 0.02 : 2e-6);
}

test::TinyModelOptions shape(std::size_t q_heads, std::size_t kv_heads, std::size_t head_dim) {
  test::TinyModelOptions options;
  options.layers = 3;
  options.q_heads = q_heads;
  options.kv_heads = kv_heads;
  options.head_dim = head_dim;
  options.ffn = 160;
  options.vocabulary = 301;
  return options;
}

}  // namespace

TEST_CASE("Addends of the ranks sum to those of the whole model", "[slices]") {
  struct Case {
    std::size_t q_heads, kv_heads, head_dim, tensor_ranks, stages;
  };
  for (const Case& c :
       {Case{9, 3, 32, 2, 1}, Case{9, 3, 32, 3, 1}, Case{9, 3, 32, 4, 1}, Case{4, 2, 32, 2, 2}, Case{4, 2, 32, 4, 1}, Case{8, 8, 16, 3, 1},
        Case{8, 8, 16, 4, 2}, Case{8, 1, 16, 2, 1}, Case{8, 1, 16, 4, 1}, Case{6, 2, 32, 3, 3}, Case{4, 2, 16, 1, 2}, Case{4, 2, 16, 1, 3}})
    for (const bool biases : {false, true}) {
      CAPTURE(c.q_heads, c.kv_heads, c.head_dim, c.tensor_ranks, c.stages, biases);
      test::TinyModelOptions options = shape(c.q_heads, c.kv_heads, c.head_dim);
      options.biases = biases;
      options.tied = !biases;
      check_group(options, c.tensor_ranks, c.stages, kernels::Activations::kFp32);
      check_group(options, c.tensor_ranks, c.stages, kernels::Activations::kInt8Group32);
    }
}

TEST_CASE("Every storage format and every kind of activations can be cut", "[slices]") {
  for (const kernels::StorageType type : kernels::kAllStorageTypes) {
    test::TinyModelOptions options = shape(8, 4, 64);
    options.ffn = 512;  // with Q6_K, two blocks
    options.layers = 1;
    options.type = type;
    CAPTURE(static_cast<int>(type));
    for (const kernels::Activations activations : kernels::kAllActivations) check_group(options, 2, 1, activations);
  }
}

TEST_CASE("The head is whole on one rank where it is not to be divided", "[slices]") {
  for (const bool tied : {false, true}) {
    test::TinyModelOptions options = shape(4, 2, 32);
    options.tied = tied;
    const auto file = open_model(options);
    Rank whole = load(file, kernels::Activations::kInt8Group32, {});
    std::vector<Rank> ranks;
    for (std::size_t rank = 0; rank < 2; ++rank)
      ranks.push_back(load(file, kernels::Activations::kInt8Group32, part_of(2, 1, rank, false)));
    CHECK(ranks[0].model->slice().has_head);
    CHECK_FALSE(ranks[1].model->slice().has_head);
    check_segments(whole, ranks, 2, 2e-6);
  }
}

TEST_CASE("A rank reads its part of the file and no more", "[slices]") {
  test::TinyModelOptions options = shape(4, 2, 32);
  options.hidden = 128;
  options.ffn = 512;
  options.tied = false;
  const auto file = open_model(options);
  // Q4_1: 20 bytes for 32 weights; norms are fp32.
  const auto wanted_bytes = [&](const model::ModelSlice& slice) {
    const auto matrix = [](std::size_t rows, std::size_t cols) { return rows * cols / 32 * 20; };
    const std::size_t q = slice.q_heads.count * options.head_dim, kv = slice.kv_heads.count * options.head_dim, norm = 4 * options.hidden;
    const std::size_t layer = matrix(2 * q + 2 * kv + 3 * slice.ffn.count, options.hidden) + 2 * norm;
    return matrix(options.vocabulary + slice.vocabulary.count, options.hidden) + slice.layers.count * layer + norm;
  };
  const std::size_t before_reading = bytes_read();
  const std::size_t of_reading = bytes_read() - before_reading;
  for (const std::size_t tensor_ranks : {1, 2, 4})
    for (std::size_t rank = 0; rank < tensor_ranks; ++rank) {
      CAPTURE(tensor_ranks, rank);
      const auto backend = make_backend(kernels::Activations::kInt8Group32);
      std::size_t done = 0, total = 0;
      const std::size_t before = bytes_read();
      auto model = model::load_model(
          file, *backend,
          [&](std::size_t so_far, std::size_t in_all) {
            done = so_far;
            total = in_all;
          },
          nullptr, part_of(tensor_ranks, 1, rank));
      const std::size_t read = bytes_read() - before - of_reading;
      REQUIRE(model.ok());
      CHECK(done == total);
      CHECK(total == wanted_bytes((*model)->slice()));
      CHECK(read < total + 100);  // the size of what tells it varies
      CHECK(read > total - 100);
    }
}

TEST_CASE("Each rank keeps packed weights of its own, and takes none of another's", "[slices]") {
  const auto folder = test::scratch_folder() / "packed_slices";
  std::filesystem::remove_all(folder);
  const auto file = open_model(shape(4, 2, 32));
  const auto backend = make_backend(kernels::Activations::kInt8Group32);
  // Returns whether all was there.
  const auto start = [&](const model::LoadPart& part, const std::string& layout) {
    weights::PackCache cache(base::CacheFolder(folder), {1, 2}, layout);
    auto model = model::load_model(file, *backend, {}, &cache, part);
    REQUIRE(model.ok());
    const bool complete = cache.complete();
    cache.write_in_background();
    cache.finish();
    return complete;
  };
  const std::vector<model::LoadPart> parts{{}, part_of(2, 1, 0), part_of(2, 1, 1), part_of(1, 2, 1)};
  for (const auto& part : parts) CHECK_FALSE(start(part, backend->pack_layout() + model::part_name(part)));
  for (const auto& part : parts) CHECK(start(part, backend->pack_layout() + model::part_name(part)));
  // Also where one file is meant for all: a part is another matrix than the whole or another part.
  for (const auto& part : {parts[0], parts[1], parts[2], parts[1]}) CHECK_FALSE(start(part, "one for all"));
}

TEST_CASE("A model that cannot be cut so is refused before anything is read", "[slices]") {
  const auto file = open_model(shape(4, 2, 32));
  const auto backend = make_backend(kernels::Activations::kInt8Group32);
  const auto refused = [&](const model::LoadPart& part, const std::string& word) {
    auto model = model::load_model(
        file, *backend, [](std::size_t, std::size_t) { FAIL("reads"); }, nullptr, part);
    REQUIRE_FALSE(model.ok());
    INFO(model.error().client_text);
    CHECK(model.error().client_text.find(word) != std::string::npos);
  };
  refused(part_of(5, 1, 0), "attention.head_count is 4");
  refused(part_of(1, 4, 0), "block_count is 3");
}

TEST_CASE("The last attention works for wanted rows alone, with the same bits", "[slices]") {
  test::TinyModelOptions options = shape(9, 3, 32);
  options.biases = GENERATE(false, true);
  const std::size_t tensor_ranks = GENERATE(1, 2);
  const Batch batch;
  Rank rank = load(open_model(options), kernels::Activations::kInt8Group32, part_of(tensor_ranks, 1, 0));
  model::Model& model = *rank.model;
  const std::size_t last = model.num_segments() - 2;
  for (std::size_t segment = 0; segment < model.num_segments(); ++segment) CHECK(model.narrows(segment) == (segment == last));

  model::RowBuffer hidden_rows(options.hidden), all_rows(options.hidden), some_rows(options.hidden), expected_rows(options.hidden);
  const kernels::Rows hidden = hidden_rows.rows(Batch::kRows), all = all_rows.rows(Batch::kRows);
  model.embed(batch.tokens, hidden);
  for (std::size_t segment = 0; segment < last; ++segment)
    model.run_segment(segment, batch.chunk(), hidden, *rank.kv, hidden, Output::kAdd);

  // Runs the last attention over poisoned slots; returns what it stored.
  const auto run = [&](const model::Chunk& chunk, kernels::Rows out, Output output) {
    std::vector<std::byte> slots, block_bytes(rank.kv->block_bytes());
    for (const std::uint32_t block : batch.blocks) rank.kv->poison_block(block);
    model.run_segment(last, chunk, hidden, *rank.kv, out, output);
    for (const std::uint32_t block : batch.blocks) {
      rank.kv->read_block(block, block_bytes);
      slots.insert(slots.end(), block_bytes.begin(), block_bytes.end());
    }
    return slots;
  };
  const auto stored = run(batch.chunk(), all, Output::kStore);
  const std::vector<std::vector<std::uint32_t>> choices{{36, 39}, {0}, {3, 4, 5, 19, 20, 30, 36, 37, 39}, {38}, {}};
  for (const auto& wanted : choices)
    for (const Output output : {Output::kStore, Output::kAdd}) {
      CAPTURE(wanted, output == Output::kAdd);
      const kernels::Rows some = some_rows.rows(wanted.size()), expected = expected_rows.rows(wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const bool add = output == Output::kAdd;
        std::copy_n((add ? hidden : all).row(wanted[i]), options.hidden, expected.row(i));
        if (add) rank.backend->add(expected.slice(i, 1), all.slice(wanted[i], 1));
        std::copy_n(hidden.row(wanted[i]), options.hidden, some.row(i));
      }
      model::Chunk chunk = batch.chunk();
      chunk.wanted = wanted;
      CHECK(run(chunk, some, output) == stored);
      CHECK(same_bits(some, expected));
    }
}
