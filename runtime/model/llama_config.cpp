// Configuration of the Llama architecture (GGUF keys "llama.*"): each key checked, with limits that keep later sizes sane.
#include "messages/error_reasons.h"
#include "runtime/model/config_reader.h"
#include "runtime/model/llama.h"
#include "runtime/weights/format_table.h"

#include <numeric>
#include <string>

namespace troupe::model {
namespace {

// Far above any published model; they bound what a hostile file can make this program allocate.
constexpr std::size_t kMostLayers = 1024, kMostHeads = 1024, kMostHidden = 65536, kMostFfn = 1 << 20;
constexpr std::size_t kMostHeadDim = 512, kMostContext = 1 << 20, kMostVocabulary = 1 << 22;

void check_heads(ConfigReader& reader, const ModelConfig& config) {
  if (config.q_heads % config.kv_heads != 0)
    reader.fail("attention.head_count_kv",
                std::to_string(config.kv_heads) + " does not divide attention.head_count " + std::to_string(config.q_heads));
  if (config.q_heads * config.head_dim % 32 != 0)
    reader.fail_unsupported("attention.key_length",
                            "heads x length = " + std::to_string(config.q_heads * config.head_dim) + " is not a multiple of 32");
}

void check_rope(ConfigReader& reader, const weights::GgufFile& file, const ModelConfig& config) {
  const std::size_t rotated = reader.integer_or("rope.dimension_count", config.head_dim, 1, kMostHeadDim);
  if (rotated != config.head_dim)
    reader.fail_unsupported("rope.dimension_count",
                            std::to_string(rotated) + " of " + std::to_string(config.head_dim) + " dimensions: partial rotation");
  const auto scaling = file.text(reader.key("rope.scaling.type"));
  if (scaling && *scaling != "none")
    reader.fail_unsupported("rope.scaling.type", "'" + printable(*scaling) + "': context scaling is not supported");
}

/// Whole blocks of the storage format and whole groups of activations, in every layer.
std::size_t unit_of_inputs(const weights::GgufFile& file, const ModelConfig& config, const std::string& name) {
  std::size_t unit = 32;
  for (std::size_t layer = 0; layer < config.layers; ++layer)
    if (const weights::Tensor* tensor = file.find(std::string("blk.").append(std::to_string(layer)).append(".").append(name)))
      unit = std::lcm(unit, weights::format_of(tensor->type).block_elements);
  return unit;
}

}  // namespace

Result<ModelConfig> read_llama_config(const weights::GgufFile& file) {
  ConfigReader reader(file, "llama");
  ModelConfig config;
  config.architecture = "llama";
  config.layers = reader.integer("block_count", 1, kMostLayers);
  config.hidden = reader.integer("embedding_length", 32, kMostHidden, 32);
  config.ffn = reader.integer("feed_forward_length", 32, kMostFfn, 32);
  config.context = reader.integer("context_length", 1, kMostContext);
  config.q_heads = reader.integer("attention.head_count", 1, kMostHeads);
  config.kv_heads = reader.integer_or("attention.head_count_kv", config.q_heads, 1, kMostHeads);
  if (!file.unsigned_integer(reader.key("attention.key_length")) && config.hidden % config.q_heads != 0)
    reader.fail("attention.head_count", std::to_string(config.q_heads) + " does not divide embedding_length");
  config.head_dim = config.hidden / config.q_heads;
  if (file.unsigned_integer(reader.key("attention.key_length")))
    config.head_dim = reader.integer("attention.key_length", 16, kMostHeadDim, 16);
  else if (config.head_dim < 16 || config.head_dim > kMostHeadDim || config.head_dim % 16 != 0)
    reader.fail_unsupported("attention.head_count", "gives heads of " + std::to_string(config.head_dim) +
                                                        " dimensions; wanted is a multiple of 16 up to " + std::to_string(kMostHeadDim));
  if (reader.integer_or("attention.value_length", config.head_dim, 1, kMostHeadDim) != config.head_dim)
    reader.fail_unsupported("attention.value_length", "differs from the key length");
  if (reader.integer_or("expert_count", 0, 0, 1 << 16) != 0) reader.fail_unsupported("expert_count", "mixture of experts is not supported");
  config.norm_eps = static_cast<float>(reader.real_or("attention.layer_norm_rms_epsilon", 1e-5, 1e-12, 1.0));
  config.rope_base = reader.real_or("rope.freq_base", 10000.0, 1.0, 1e12);
  check_heads(reader, config);
  check_rope(reader, file, config);
  if (reader.error()) return *reader.error();

  const weights::Tensor* embeddings = file.find("token_embd.weight");
  if (embeddings == nullptr || embeddings->shape.size() != 2) return file.bad("tensor token_embd.weight", "missing, or not a matrix");
  config.vocabulary = embeddings->shape[1];
  if (config.vocabulary < 1 || config.vocabulary > kMostVocabulary)
    return unsupported(file, "tensor token_embd.weight",
                       std::to_string(config.vocabulary) + " rows, not in 1..." + std::to_string(kMostVocabulary));
  // An id that the tokenizer gives must have a row.
  if (const auto tokens = file.texts("tokenizer.ggml.tokens"); tokens && tokens->size() > config.vocabulary)
    return file.bad("tokenizer.ggml.tokens",
                    std::to_string(tokens->size()) + " tokens, but token_embd.weight has " + std::to_string(config.vocabulary) + " rows");
  config.tied_embeddings = file.find("output.weight") == nullptr;
  config.attended_unit = unit_of_inputs(file, config, "attn_output.weight");
  config.ffn_unit = unit_of_inputs(file, config, "ffn_down.weight");
  return config;
}

}  // namespace troupe::model
