// See random_model.h.
#include "cluster/bench/random_model.h"

#include "runtime/text/byte_alphabet.h"
#include "runtime/weights/format_table.h"
#include "runtime/weights/gguf_writer.h"
#include "runtime/weights/half.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace troupe::cluster::bench {
namespace {

constexpr std::int32_t kNormal = 1, kControl = 3;
constexpr std::uint32_t kVocabulary = kControlTokens + 256;

/// Blocks of one scale and 32 random bytes: evenly spread over the whole range, so that values have the wanted deviation.
std::string random_blocks(std::uint64_t values, float deviation, std::uint64_t seed) {
  constexpr float kDeviationOfBytes = 73.9F;  // 256 / sqrt(12)
  const weights::Format& format = weights::format_of(kernels::StorageType::kQ8_0);
  std::string out(values / format.block_elements * format.block_bytes, '\0');
  const std::uint16_t scale = weights::float_to_half(deviation / kDeviationOfBytes);
  std::mt19937_64 random(seed);
  for (std::size_t block = 0; block < out.size(); block += format.block_bytes) {
    std::memcpy(&out[block], &scale, sizeof scale);
    for (std::size_t at = block + sizeof scale; at < block + format.block_bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t bytes = random();
      std::memcpy(&out[at], &bytes, sizeof bytes);
    }
  }
  return out;
}

class RandomModel {
 public:
  RandomModel(const ModelShape& shape, std::uint64_t seed) : shape_(shape), seed_(seed) {}

  Status write(const std::filesystem::path& path) {
    metadata();
    vocabulary();
    tensors();
    return writer_.write(path);
  }

 private:
  void metadata() {
    writer_.text("general.architecture", "llama").text("general.name", "random");
    writer_.unsigned_integer("llama.block_count", shape_.layers).unsigned_integer("llama.context_length", shape_.context);
    writer_.unsigned_integer("llama.embedding_length", shape_.hidden).unsigned_integer("llama.feed_forward_length", shape_.ffn);
    writer_.unsigned_integer("llama.attention.head_count", shape_.q_heads);
    writer_.unsigned_integer("llama.attention.head_count_kv", shape_.kv_heads);
    writer_.unsigned_integer("llama.attention.key_length", shape_.head_dim);
    writer_.unsigned_integer("llama.attention.value_length", shape_.head_dim);
    writer_.unsigned_integer("llama.rope.dimension_count", shape_.head_dim).unsigned_integer("llama.vocab_size", kVocabulary);
    writer_.real("llama.rope.freq_base", 10000.0F).real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  }

  void vocabulary() {
    std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    std::vector<std::int32_t> types(kControlTokens, kControl);
    for (unsigned byte = 0; byte < 256; ++byte) tokens.push_back(text::byte_symbol(static_cast<unsigned char>(byte)));
    types.resize(tokens.size(), kNormal);
    writer_.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm");
    writer_.texts("tokenizer.ggml.tokens", tokens).integers("tokenizer.ggml.token_type", types);
    writer_.texts("tokenizer.ggml.merges", std::vector<std::string>{});
    writer_.unsigned_integer("tokenizer.ggml.bos_token_id", 1).unsigned_integer("tokenizer.ggml.eos_token_id", 2);
    writer_.boolean("tokenizer.ggml.add_bos_token", false).boolean("tokenizer.ggml.add_space_prefix", false);
    writer_.text("tokenizer.chat_template", "{% for message in messages %}{{ message['content'] }}{% endfor %}");
  }

  void tensors() {
    const std::uint64_t q = std::uint64_t{shape_.q_heads} * shape_.head_dim, kv = std::uint64_t{shape_.kv_heads} * shape_.head_dim;
    embedding();
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      norm(prefix + "attn_norm.weight");
      matrix(prefix + "attn_q.weight", q, shape_.hidden, 1.0F);
      matrix(prefix + "attn_k.weight", kv, shape_.hidden, 1.0F);
      matrix(prefix + "attn_v.weight", kv, shape_.hidden, 1.0F);
      matrix(prefix + "attn_output.weight", shape_.hidden, q, 1.0F);
      norm(prefix + "ffn_norm.weight");
      matrix(prefix + "ffn_gate.weight", shape_.ffn, shape_.hidden, 1.0F);
      matrix(prefix + "ffn_up.weight", shape_.ffn, shape_.hidden, 1.0F);
      matrix(prefix + "ffn_down.weight", shape_.hidden, shape_.ffn, 1.0F);
    }
    norm("output_norm.weight");
  }

  void norm(const std::string& name) {
    const std::vector<float> ones(shape_.hidden, 1.0F);
    writer_.raw_tensor(name, {shape_.hidden}, weights::format_of(kernels::StorageType::kF32).gguf_type,
                       std::string(reinterpret_cast<const char*>(ones.data()), ones.size() * sizeof(float)));
  }

  /// `gain`: deviation of the outputs for inputs of deviation 1.
  void matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols, float gain) {
    const weights::Format& format = weights::format_of(kernels::StorageType::kQ8_0);
    const float deviation = gain / std::sqrt(static_cast<float>(cols));
    writer_.made_tensor(name, {cols, rows}, format.gguf_type, rows * cols / format.block_elements * format.block_bytes,
                        [values = rows * cols, deviation, seed = ++seed_] { return random_blocks(values, deviation, seed); });
  }

  /// The head is tied to it: rows of all but plain characters are 0, so that none of them is ever the most likely one.
  void embedding() {
    const weights::Format& format = weights::format_of(kernels::StorageType::kQ8_0);
    const auto make = [cols = std::uint64_t{shape_.hidden}, seed = ++seed_] {
      const float deviation = 1 / std::sqrt(static_cast<float>(cols));
      std::string out;
      for (std::uint64_t row = 0; row < kVocabulary; ++row) {
        const bool plain = row >= kFirstPlainToken && row < kFirstPlainToken + kPlainTokens;
        out += random_blocks(cols, plain ? deviation : 0, seed + (row << 32));
      }
      return out;
    };
    writer_.made_tensor("token_embd.weight", {shape_.hidden, kVocabulary}, format.gguf_type,
                        std::uint64_t{kVocabulary} * shape_.hidden / format.block_elements * format.block_bytes, make);
  }

  const ModelShape& shape_;
  std::uint64_t seed_;
  weights::GgufWriter writer_;
};

}  // namespace

Status write_random_model(const ModelShape& shape, std::uint64_t seed, const std::filesystem::path& path) {
  return RandomModel(shape, seed).write(path);
}

}  // namespace troupe::cluster::bench
