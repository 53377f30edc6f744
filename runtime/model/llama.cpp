#include "runtime/model/llama.h"

#include "runtime/model/row_buffer.h"
#include "runtime/model/weight_loader.h"

#include <algorithm>
#include <vector>

namespace troupe::model {
namespace {

struct Layer {
  std::vector<float> attention_norm, mlp_norm;
  std::unique_ptr<kernels::Weight> qkv;      // outputs: q heads, k heads, v heads
  std::unique_ptr<kernels::Weight> output;   // of attention
  std::unique_ptr<kernels::Weight> gate_up;  // outputs: gate, up
  std::unique_ptr<kernels::Weight> down;
};

/// Rows of an fp32 matrix in the logits buffer end in padding that must never win a draw.
constexpr float kPaddingLogit = -1e30F;

class LlamaModel final : public Model {
 public:
  LlamaModel(ModelConfig config, kernels::Backend& backend) : backend_(backend) {
    config_ = std::move(config);
    q_width_ = config_.q_heads * config_.head_dim;
    kv_width_ = config_.kv_heads * config_.head_dim;
    qkv_.set_width(q_width_ + 2 * kv_width_);
    attended_.set_width(q_width_);
    gate_up_.set_width(2 * config_.ffn);
    gathered_.set_width(config_.hidden);
    products_.set_width(config_.hidden);
    rope_ = kernels::make_rope_table(config_.head_dim, config_.rope_base, config_.context);
    rope_.pairs = kernels::RopePairs::kAdjacent;  // the converter has put q and k of this architecture in that order
  }

  void load(WeightLoader& loader) {
    const std::size_t hidden = config_.hidden;
    embeddings_ = loader.matrix({"token_embd.weight", config_.vocabulary, hidden, Slicing::kOutputs});
    if (!config_.tied_embeddings) head_ = loader.matrix({"output.weight", config_.vocabulary, hidden, Slicing::kOutputs});
    final_norm_ = loader.vector("output_norm.weight", hidden);
    loader.refuse("rope_freqs.weight", "scaled RoPE frequencies are not supported");
    layers_.reserve(config_.layers);
    for (std::size_t i = 0; i < config_.layers && !loader.error(); ++i) layers_.push_back(load_layer(loader, i));
    weight_bytes_ = count_bytes();
  }

  std::size_t num_segments() const override { return 2 * config_.layers; }

  void embed(std::span<const TokenId> tokens, kernels::Rows hidden) override { backend_.embed(*embeddings_, tokens, hidden); }

  void run_segment(std::size_t segment, const Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, kernels::Rows out,
                   kernels::Output output) override {
    if (segment % 2 == 0)
      attention(segment / 2, chunk, hidden, kv, out, output);
    else if (segment + 1 == num_segments() && chunk.wanted)
      mlp_of_rows(layers_.back(), *chunk.wanted, hidden, out, output);
    else
      mlp(layers_[segment / 2], hidden, out, output);
  }

  void logits(kernels::Rows hidden, kernels::Rows out) override {
    const kernels::Weight& head = head_ ? *head_ : *embeddings_;
    kernels::Rows real = out;
    real.width = config_.vocabulary;
    backend_.norm_linear(hidden, final_norm_.data(), config_.norm_eps, head, real);
    if (out.width == config_.vocabulary) return;
    backend_.synchronize();
    for (std::size_t i = 0; i < out.count; ++i) std::fill(out.row(i) + config_.vocabulary, out.row(i) + out.width, kPaddingLogit);
  }

  std::size_t weight_bytes() const override { return weight_bytes_; }

 private:
  Layer load_layer(WeightLoader& loader, std::size_t index) {
    const std::string prefix = "blk." + std::to_string(index) + ".";
    const std::size_t hidden = config_.hidden, ffn = config_.ffn, head_dim = config_.head_dim;
    for (const char* bias : {"attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"})
      loader.refuse(prefix + bias, "biases are not supported");
    Layer layer;
    layer.attention_norm = loader.vector(prefix + "attn_norm.weight", hidden);
    const WantedMatrix qkv[] = {
        {prefix + "attn_q.weight", q_width_, hidden, Slicing::kHeads, head_dim},
        {prefix + "attn_k.weight", kv_width_, hidden, Slicing::kHeads, head_dim},
        {prefix + "attn_v.weight", kv_width_, hidden, Slicing::kHeads, head_dim},
    };
    layer.qkv = loader.matrix(qkv);
    layer.output = loader.matrix({prefix + "attn_output.weight", hidden, q_width_, Slicing::kInputs});
    layer.mlp_norm = loader.vector(prefix + "ffn_norm.weight", hidden);
    const WantedMatrix gate_up[] = {
        {prefix + "ffn_gate.weight", ffn, hidden, Slicing::kOutputs},
        {prefix + "ffn_up.weight", ffn, hidden, Slicing::kOutputs},
    };
    layer.gate_up = loader.matrix(gate_up);
    layer.down = loader.matrix({prefix + "ffn_down.weight", hidden, ffn, Slicing::kInputs});
    return layer;
  }

  void attention(std::size_t index, const Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, kernels::Rows out,
                 kernels::Output output) {
    const Layer& layer = layers_[index];
    const kernels::Rows qkv = qkv_.rows(chunk.rows);
    const kernels::Rows attended = attended_.rows(chunk.rows);
    // Errors of q and K weigh most: they move attention. A sixth of a layer, so two terms cost little.
    backend_.norm_linear_two_terms(hidden, layer.attention_norm.data(), config_.norm_eps, *layer.qkv, qkv);
    backend_.rope_append(qkv, config_.q_heads, chunk.sequences, rope_, kv, index);
    backend_.attention(qkv, config_.q_heads, chunk.sequences, kv, index, attended);
    backend_.linear(*layer.output, attended, out, output);
  }

  void mlp(const Layer& layer, kernels::Rows hidden, kernels::Rows out, kernels::Output output) {
    const kernels::Rows gate_up = gate_up_.rows(hidden.count);
    backend_.norm_linear(hidden, layer.mlp_norm.data(), config_.norm_eps, *layer.gate_up, gate_up);
    backend_.swiglu_linear(gate_up, *layer.down, out, output);
  }

  /// The same for some rows only: behind the last layer, only those that are sampled are read.
  void mlp_of_rows(const Layer& layer, std::span<const std::uint32_t> rows, kernels::Rows hidden, kernels::Rows out,
                   kernels::Output output) {
    if (rows.size() == hidden.count) return mlp(layer, hidden, out, output);
    const kernels::Rows gathered = gathered_.rows(rows.size()), product = products_.rows(rows.size());
    backend_.synchronize();
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(hidden.row(rows[i]), hidden.width, gathered.row(i));
    mlp(layer, gathered, product, kernels::Output::kStore);
    backend_.synchronize();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (output == kernels::Output::kAdd)
        backend_.add(out.slice(rows[i], 1), product.slice(i, 1));
      else
        std::copy_n(product.row(i), product.width, out.row(rows[i]));
    }
  }

  std::size_t count_bytes() const {
    std::size_t bytes = 0;
    const auto add = [&bytes](const std::unique_ptr<kernels::Weight>& weight) { bytes += weight ? weight->bytes() : 0; };
    add(embeddings_);
    add(head_);
    for (const Layer& layer : layers_) {
      add(layer.qkv);
      add(layer.output);
      add(layer.gate_up);
      add(layer.down);
    }
    return bytes;
  }

  kernels::Backend& backend_;
  std::size_t q_width_ = 0, kv_width_ = 0, weight_bytes_ = 0;
  kernels::RopeTable rope_;
  std::unique_ptr<kernels::Weight> embeddings_, head_;  // head_ is null where the embeddings are tied
  std::vector<float> final_norm_;
  std::vector<Layer> layers_;
  RowBuffer qkv_, attended_, gate_up_, gathered_, products_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_llama(std::shared_ptr<const weights::GgufFile> file, kernels::Backend& backend,
                                          const LoadProgress& progress, weights::PackCache* cache) {
  auto config = read_llama_config(*file);
  if (!config) return config.error();
  WeightLoader loader(*file, backend, cache, progress);
  auto model = std::make_unique<LlamaModel>(*config, backend);
  model->load(loader);
  if (loader.error()) return *loader.error();
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace troupe::model
