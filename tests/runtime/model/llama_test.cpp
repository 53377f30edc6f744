// The Llama architecture against a plain forward pass in double: order of heads, rotation, GQA, tied and separate heads, padding.
#include "runtime/model/model.h"
#include "runtime/model/row_buffer.h"
#include "tests/runtime/model/reference_llama.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <set>

using namespace troupe;

namespace {

struct Loaded {
  std::shared_ptr<const weights::GgufFile> file;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Model> model;
};

Loaded load(const test::TinyModelOptions& options, kernels::Activations activations) {
  const auto path = test::write_tiny_model(test::scratch_folder(), options);
  auto file = weights::GgufFile::open(path);
  REQUIRE(file.ok());
  Loaded loaded;
  loaded.file = *file;
  kernels::CpuOptions cpu;
  cpu.threads = 1;
  cpu.pin = false;
  cpu.spin_us = 0;
  cpu.activations = activations;
  loaded.backend = kernels::make_cpu_backend(cpu);
  auto model = model::load_model(loaded.file, *loaded.backend, {});
  if (!model) FAIL(model.error().client_text);
  loaded.model = std::move(*model);
  return loaded;
}

/// Logits behind the last token, computed in one chunk.
std::vector<float> run(Loaded& loaded, const std::vector<TokenId>& tokens, kernels::KvFormat format) {
  model::Model& model = *loaded.model;
  const model::ModelConfig& config = model.config();
  const std::vector<std::uint32_t> blocks{1, 0, 2};
  REQUIRE(tokens.size() <= blocks.size() * kBlockTokens);
  auto kv = loaded.backend->make_kv_cache(
      {config.layers, config.kv_heads, config.head_dim, blocks.size(), format, format == kernels::KvFormat::kInt8});
  model::RowBuffer hidden_buffer(config.hidden), addend_buffer(config.hidden), logits_buffer(config.vocabulary);
  const kernels::Rows hidden = hidden_buffer.rows(tokens.size()), addend = addend_buffer.rows(tokens.size());
  model.embed(tokens, hidden);
  const kernels::SequenceRows sequence{0, tokens.size(), 0, blocks.data()};
  for (std::size_t segment = 0; segment < model.num_segments(); ++segment) {
    model.run_segment(segment, {std::span(&sequence, 1), tokens.size()}, hidden, *kv, addend, kernels::Output::kStore);
    loaded.backend->add(hidden, addend);
  }
  const kernels::Rows logits = logits_buffer.rows(1);
  model.logits(hidden.slice(tokens.size() - 1, 1), logits);
  loaded.backend->synchronize();
  return {logits.row(0), logits.row(0) + logits.width};
}

std::vector<TokenId> some_tokens(std::size_t count, std::size_t vocabulary) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>((i * 37 + 11) % vocabulary));
  return tokens;
}

/// rms of the difference over rms of the reference.
double error_of(const std::vector<float>& got, const std::vector<double>& wanted) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    size += wanted[i] * wanted[i];
  }
  return std::sqrt(error / size);
}

}  // namespace

TEST_CASE("fp32 logits equal a forward pass in double", "[llama]") {
  test::TinyModelOptions options;
  SECTION("grouped heads, tied") {}
  SECTION("separate head") { options.tied = false; }
  SECTION("one kv head a q head, wide heads") {
    options.q_heads = options.kv_heads = 2;
    options.head_dim = 64;
  }
  SECTION("three layers, heads narrower than the model, odd vocabulary") {
    options.layers = 3;
    options.hidden = 96;
    options.q_heads = 6;
    options.kv_heads = 2;
    options.head_dim = 32;
    options.vocabulary = 301;
  }
  SECTION("biases") { options.biases = true; }
  SECTION("float weights") { options.type = kernels::StorageType::kF16; }
  SECTION("8 bit weights") { options.type = kernels::StorageType::kQ8_0; }
  SECTION("4 bit weights without minimum") { options.type = kernels::StorageType::kQ4_0; }
  Loaded loaded = load(options, kernels::Activations::kFp32);
  CHECK(loaded.model->weight_bytes() > 0);
  CHECK(loaded.model->num_segments() == 2 * options.layers);
  for (const std::size_t length : {1, 2, 33, 70}) {
    CAPTURE(length);
    const auto tokens = some_tokens(length, options.vocabulary);
    const auto got = run(loaded, tokens, kernels::KvFormat::kFp32);
    CHECK(error_of(got, test::reference_logits(*loaded.file, loaded.model->config(), tokens)) < 2e-5);
  }
}

TEST_CASE("int8 logits stay near the forward pass in double", "[llama]") {
  test::TinyModelOptions options;
  Loaded loaded = load(options, kernels::Activations::kInt8Group32);
  const auto tokens = some_tokens(70, options.vocabulary);
  const auto got = run(loaded, tokens, kernels::KvFormat::kInt8);
  const double error = error_of(got, test::reference_logits(*loaded.file, loaded.model->config(), tokens));
  CHECK(error < 0.1);
  CHECK(error > 0);  // it is a quantized path
}

TEST_CASE("Loading counts every byte it packs", "[llama]") {
  const auto path = test::write_tiny_model(test::scratch_folder(), {});
  auto file = weights::GgufFile::open(path);
  REQUIRE(file.ok());
  auto backend = kernels::make_cpu_backend({1, false, 0, "", kernels::Activations::kInt8Group32});
  std::size_t last = 0, total = 0;
  auto model = model::load_model(*file, *backend, [&](std::size_t done, std::size_t all) {
    CHECK(done > last);
    last = done;
    total = all;
  });
  REQUIRE(model.ok());
  std::size_t bytes = 0;
  for (const auto& tensor : (*file)->tensors()) bytes += tensor.bytes;
  CHECK(last == bytes);
  CHECK(total == bytes);
}

TEST_CASE("The numerics id tells apart what may change a token", "[llama]") {
  using kernels::Activations;
  using kernels::KvFormat;
  const Hash128 content{1, 2};
  const Hash128 id = model::numerics_id(content, kernels::WeightFormat::kFile, Activations::kInt8Group32, KvFormat::kInt8);
  CHECK(id == model::numerics_id(content, kernels::WeightFormat::kFile, Activations::kInt8Group32, KvFormat::kInt8));
  CHECK(id != model::numerics_id({1, 3}, kernels::WeightFormat::kFile, Activations::kInt8Group32, KvFormat::kInt8));
  CHECK(id != model::numerics_id(content, kernels::WeightFormat::kInt8Channel, Activations::kInt8Group32, KvFormat::kInt8));
  CHECK(id != model::numerics_id(content, kernels::WeightFormat::kFile, Activations::kFp32, KvFormat::kInt8));
  CHECK(id != model::numerics_id(content, kernels::WeightFormat::kFile, Activations::kInt8Group32, KvFormat::kFp32));
  CHECK(id == Hash128{0xae1457488d409693, 0xbc9723a976983c4d});  // names what is on disks: changes with the arithmetic alone

  const auto of_group = [&](std::uint16_t tensor_ranks, std::uint16_t stages, std::string_view codec) {
    return model::numerics_id(content, kernels::WeightFormat::kFile, Activations::kInt8Group32, KvFormat::kInt8, {tensor_ranks, stages},
                              codec);
  };
  CHECK(of_group(1, 1, "none") == id);
  const std::set<Hash128> ids{id, of_group(2, 1, "bf16"), of_group(1, 2, "bf16"), of_group(2, 2, "bf16"), of_group(2, 1, "int8")};
  CHECK(ids.size() == 5);
}
