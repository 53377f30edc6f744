// A model file is untrusted: every configuration key that is missing, absurd or unsupported is an Error that names it.
#include "messages/error_reasons.h"
#include "runtime/model/model.h"
#include "runtime/model/model_table.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <map>

using namespace troupe;

namespace {

struct Keys {
  std::map<std::string, std::uint32_t> integers{{"llama.block_count", 2},          {"llama.embedding_length", 64},
                                                {"llama.feed_forward_length", 96}, {"llama.context_length", 512},
                                                {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2},
                                                {"llama.attention.key_length", 16}};
  std::map<std::string, float> reals{{"llama.rope.freq_base", 10000.0F}, {"llama.attention.layer_norm_rms_epsilon", 1e-5F}};
  std::map<std::string, std::string> texts{{"general.architecture", "llama"}};
  bool embeddings = true;
  std::vector<std::string> tokens;
};

Result<model::ModelConfig> read(const Keys& keys) {
  test::GgufWriter writer;
  for (const auto& [key, value] : keys.texts) writer.text(key, value);
  for (const auto& [key, value] : keys.integers) writer.unsigned_integer(key, value);
  for (const auto& [key, value] : keys.reals) writer.real(key, value);
  if (!keys.tokens.empty()) writer.texts("tokenizer.ggml.tokens", keys.tokens);
  const std::vector<float> values(64 * 8, 0.5F);
  if (keys.embeddings) writer.tensor("token_embd.weight", {64, 8}, kernels::StorageType::kF32, values);
  writer.tensor("other.weight", {64}, kernels::StorageType::kF32, std::span(values).first(64));
  writer.write(test::scratch_folder() / "config.gguf");
  auto file = weights::GgufFile::open(test::scratch_folder() / "config.gguf");
  if (!file) return file.error();
  return model::read_config(**file);
}

void check_error(const Result<model::ModelConfig>& got, const std::string& field) {
  REQUIRE_FALSE(got.ok());
  INFO(got.error().client_text);
  CHECK(got.error().client_text.find(field) != std::string::npos);
  CHECK(got.error().client_text.find("config.gguf") != std::string::npos);
  CHECK(got.error().client_text.find('\n') == std::string::npos);
  const bool known = got.error().reason == ErrorReason::kBadModelFile || got.error().reason == ErrorReason::kUnsupportedModel;
  CHECK(known);
}

}  // namespace

TEST_CASE("A sound configuration is read", "[config]") {
  const auto config = read({});
  REQUIRE(config.ok());
  CHECK(config->layers == 2);
  CHECK(config->hidden == 64);
  CHECK(config->q_heads == 4);
  CHECK(config->kv_heads == 2);
  CHECK(config->head_dim == 16);
  CHECK(config->ffn == 96);
  CHECK(config->context == 512);
  CHECK(config->vocabulary == 8);
  CHECK(config->rope_base == 10000.0);
  CHECK(config->tied_embeddings);
}

TEST_CASE("Optional keys have their defaults", "[config]") {
  Keys keys;
  keys.integers.erase("llama.attention.head_count_kv");
  keys.integers.erase("llama.attention.key_length");
  keys.reals.clear();
  const auto config = read(keys);
  REQUIRE(config.ok());
  CHECK(config->kv_heads == 4);
  CHECK(config->head_dim == 16);
  CHECK(config->rope_base == 10000.0);
  CHECK(config->norm_eps == 1e-5F);
}

TEST_CASE("A missing key is named", "[config]") {
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.context_length", "llama.attention.head_count"}) {
    Keys keys;
    keys.integers.erase(key);
    check_error(read(keys), key);
  }
  Keys keys;
  keys.texts.clear();
  check_error(read(keys), "general.architecture");
  keys = {};
  keys.embeddings = false;
  check_error(read(keys), "token_embd.weight");
}

TEST_CASE("An absurd or unsupported value is named", "[config]") {
  const std::vector<std::pair<std::string, std::uint32_t>> bad{
      {"llama.block_count", 0},
      {"llama.block_count", 0xffffffff},
      {"llama.embedding_length", 0},
      {"llama.embedding_length", 65},
      {"llama.embedding_length", 0xffffffe0},
      {"llama.feed_forward_length", 33},
      {"llama.feed_forward_length", 0xffffffe0},
      {"llama.context_length", 0},
      {"llama.context_length", 0xffffffff},
      {"llama.attention.head_count", 0},
      {"llama.attention.head_count_kv", 0},
      {"llama.attention.head_count_kv", 3},
      {"llama.attention.key_length", 24},
      {"llama.attention.key_length", 0},
      {"llama.attention.key_length", 0xfffffff0},
      {"llama.attention.value_length", 32},
      {"llama.rope.dimension_count", 8},
      {"llama.expert_count", 8},
  };
  for (const auto& [key, value] : bad) {
    CAPTURE(key, value);
    Keys keys;
    keys.integers[key] = value;
    check_error(read(keys), key);
  }
  for (const float value : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* key : {"llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon"}) {
      CAPTURE(key, value);
      Keys keys;
      keys.reals[key] = value;
      check_error(read(keys), key);
    }
  }
  Keys keys;
  keys.texts["llama.rope.scaling.type"] = "yarn";
  check_error(read(keys), "llama.rope.scaling.type");
}

TEST_CASE("An unknown architecture is named, with those that are known", "[config]") {
  Keys keys;
  keys.texts["general.architecture"] = "mam\nba";
  const auto got = read(keys);
  check_error(got, "mam?ba");
  CHECK(got.error().client_text.find("llama") != std::string::npos);
  CHECK(got.error().reason == ErrorReason::kUnsupportedModel);
}

TEST_CASE("Weights that are missing, misshapen or not understood are named", "[config]") {
  auto backend = kernels::make_cpu_backend({1, false, 0, "", kernels::Activations::kInt8Group32});
  const auto load = [&](const test::GgufWriter& writer) {
    writer.write(test::scratch_folder() / "weights.gguf");
    auto file = weights::GgufFile::open(test::scratch_folder() / "weights.gguf");
    REQUIRE(file.ok());
    auto model = model::load_model(*file, *backend, {});
    REQUIRE_FALSE(model.ok());
    return model.error().client_text;
  };
  const auto named = [](const std::string& text, const std::string& name) {
    INFO(text);
    CHECK(text.find(name) != std::string::npos);
  };
  const std::vector<float> values(4096, 0.25F);
  named(load(test::tiny_model({}).tensor("rope_freqs.weight", {8}, kernels::StorageType::kF32, std::span(values).first(8))),
        "rope_freqs.weight");
  named(load(test::tiny_model({}).tensor("blk.1.attn_q.bias", {32}, kernels::StorageType::kF32, std::span(values).first(32))),
        "blk.1.attn_q.bias");
  // An output matrix of the wrong width, and one of the wrong height.
  named(load(test::tiny_model({}).tensor("output.weight", {32, 4}, kernels::StorageType::kF32, std::span(values).first(128))),
        "output.weight");
  named(load(test::tiny_model({}).tensor("output.weight", {64, 4}, kernels::StorageType::kF32, std::span(values).first(256))),
        "output.weight");
}

TEST_CASE("A file that is cut while it loads is an error that names the tensor", "[config]") {
  auto backend = kernels::make_cpu_backend({2, false, 0, "", kernels::Activations::kInt8Group32});
  const auto path = test::scratch_folder() / "cut.gguf";
  for (const std::size_t loaded : {0, 1, 5}) {  // matrices and vectors
    test::tiny_model({}).write(path);
    auto file = weights::GgufFile::open(path);
    REQUIRE(file.ok());
    const auto cut = [&] { std::filesystem::resize_file(path, (*file)->find("token_embd.weight")->offset); };
    std::size_t done = 0;
    if (loaded == 0) cut();
    auto model = model::load_model(*file, *backend, [&](std::size_t, std::size_t) {
      if (++done == loaded) cut();
    });
    REQUIRE_FALSE(model.ok());
    INFO(model.error().client_text);
    CHECK(model.error().reason == ErrorReason::kFileUnreadable);
    for (const char* word : {"cut.gguf", "tensor", "was cut"}) CHECK(model.error().client_text.find(word) != std::string::npos);
  }
}

TEST_CASE("The tokenizer has no token without a row", "[config]") {
  Keys keys;
  keys.tokens.assign(8, "x");
  CHECK(read(keys).ok());
  keys.tokens.emplace_back("y");
  check_error(read(keys), "tokenizer.ggml.tokens");
}
