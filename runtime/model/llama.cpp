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
  std::vector<float> qkv_bias, output_bias, gate_up_bias, down_bias;  // empty: none
};

Range scaled(const Range& range, std::size_t factor) { return {range.first * factor, range.count * factor}; }

class LlamaModel final : public Model {
 public:
  LlamaModel(ModelConfig config, const ModelSlice& slice, bool adds_output_biases, kernels::Backend& backend)
      : backend_(backend), adds_output_biases_(adds_output_biases) {
    config_ = std::move(config);
    slice_ = slice;
    q_width_ = slice_.q_heads.count * config_.head_dim;
    const std::size_t kv_width = slice_.kv_heads.count * config_.head_dim;
    qkv_.set_width(q_width_ + 2 * kv_width);
    narrowed_.set_width(q_width_ + 2 * kv_width);
    attended_.set_width(q_width_);
    gate_up_.set_width(2 * slice_.ffn.count);
    products_.set_width(config_.hidden);
    rope_ = kernels::make_rope_table(config_.head_dim, config_.rope_base, config_.context);
    rope_.pairs = kernels::RopePairs::kAdjacent;  // the converter has put q and k of this architecture in that order
  }

  void load(WeightLoader& loader) {
    const std::size_t hidden = config_.hidden, vocabulary = config_.vocabulary;
    const bool has_whole_head = slice_.vocabulary.count == vocabulary;
    if (slice_.embeds) embeddings_ = loader.matrix({"token_embd.weight", vocabulary, hidden});
    if (slice_.has_head) {
      // A tied head that is whole is the table itself.
      if (!(config_.tied_embeddings && slice_.embeds && has_whole_head))
        head_ = loader.matrix(
            {config_.tied_embeddings ? "token_embd.weight" : "output.weight", vocabulary, hidden, Slicing::kOutputs, slice_.vocabulary});
      final_norm_ = loader.vector({"output_norm.weight", hidden});
    }
    loader.refuse("rope_freqs.weight", "scaled RoPE frequencies are not supported");
    layers_.clear();
    for (std::size_t i = 0; i < slice_.layers.count && !loader.error(); ++i) layers_.push_back(load_layer(loader, slice_.layers.first + i));
    weight_bytes_ = count_bytes();
  }

  void embed(std::span<const TokenId> tokens, kernels::Rows hidden) override { backend_.embed(*embeddings_, tokens, hidden); }

  void run_segment(std::size_t segment, const Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, kernels::Rows out,
                   kernels::Output output) override {
    if (segment % 2 == 1)
      mlp(layers_[segment / 2], hidden, out, output);
    else
      attention(segment / 2, chunk, narrows(segment) && chunk.wanted, hidden, kv, out, output);
  }

  void logits(kernels::Rows hidden, kernels::Rows out) override {
    backend_.norm_linear(hidden, final_norm_.data(), config_.norm_eps, head_ ? *head_ : *embeddings_, out);
  }

  std::size_t weight_bytes() const override { return weight_bytes_; }

 private:
  Layer load_layer(WeightLoader& loader, std::size_t index) {
    const std::string prefix = "blk." + std::to_string(index) + ".";
    const std::size_t hidden = config_.hidden, ffn = config_.ffn, head_dim = config_.head_dim;
    const std::size_t q = config_.q_heads * head_dim, kv = config_.kv_heads * head_dim;
    const Range q_part = scaled(slice_.q_heads, head_dim), kv_part = scaled(slice_.kv_heads, head_dim);
    Layer layer;
    layer.attention_norm = loader.vector({prefix + "attn_norm.weight", hidden});
    layer.qkv = loader.matrix({{prefix + "attn_q.weight", q, hidden, Slicing::kOutputs, q_part},
                               {prefix + "attn_k.weight", kv, hidden, Slicing::kOutputs, kv_part},
                               {prefix + "attn_v.weight", kv, hidden, Slicing::kOutputs, kv_part}});
    layer.qkv_bias =
        loader.bias({{prefix + "attn_q.bias", q, q_part}, {prefix + "attn_k.bias", kv, kv_part}, {prefix + "attn_v.bias", kv, kv_part}});
    layer.output = loader.matrix({prefix + "attn_output.weight", hidden, q, Slicing::kInputs, q_part});
    layer.mlp_norm = loader.vector({prefix + "ffn_norm.weight", hidden});
    layer.gate_up = loader.matrix({{prefix + "ffn_gate.weight", ffn, hidden, Slicing::kOutputs, slice_.ffn},
                                   {prefix + "ffn_up.weight", ffn, hidden, Slicing::kOutputs, slice_.ffn}});
    layer.gate_up_bias = loader.bias({{prefix + "ffn_gate.bias", ffn, slice_.ffn}, {prefix + "ffn_up.bias", ffn, slice_.ffn}});
    layer.down = loader.matrix({prefix + "ffn_down.weight", hidden, ffn, Slicing::kInputs, slice_.ffn});
    if (adds_output_biases_) {
      layer.output_bias = loader.bias({{prefix + "attn_output.bias", hidden}});
      layer.down_bias = loader.bias({{prefix + "ffn_down.bias", hidden}});
    }
    return layer;
  }

  void attention(std::size_t index, const Chunk& chunk, bool narrow, kernels::Rows hidden, kernels::KvCache& kv, kernels::Rows out,
                 kernels::Output output) {
    const Layer& layer = layers_[index];
    kernels::Rows qkv = qkv_.rows(chunk.rows);
    std::span<const kernels::SequenceRows> sequences = chunk.sequences;
    // Errors of q and K weigh most: they move attention. A sixth of a layer, so two terms cost little.
    backend_.norm_linear_two_terms(hidden, layer.attention_norm.data(), config_.norm_eps, *layer.qkv, qkv);
    if (!layer.qkv_bias.empty()) backend_.add_bias(qkv, layer.qkv_bias.data());
    backend_.rope_append(qkv, slice_.q_heads.count, sequences, rope_, kv, index);
    if (narrow && chunk.wanted->size() < chunk.rows) {
      qkv = narrowed_queries(qkv, *chunk.wanted);
      sequences = narrowed_sequences(sequences, *chunk.wanted);
      if (sequences.empty()) return;
    }
    const kernels::Rows attended = attended_.rows(qkv.count);
    backend_.attention(qkv, slice_.q_heads.count, sequences, kv, index, attended);
    with_bias(layer.output_bias, out, output,
              [&](kernels::Rows to, kernels::Output how) { backend_.linear(*layer.output, attended, to, how); });
  }

  void mlp(const Layer& layer, kernels::Rows hidden, kernels::Rows out, kernels::Output output) {
    const kernels::Rows gate_up = gate_up_.rows(hidden.count);
    backend_.norm_linear(hidden, layer.mlp_norm.data(), config_.norm_eps, *layer.gate_up, gate_up);
    if (!layer.gate_up_bias.empty()) backend_.add_bias(gate_up, layer.gate_up_bias.data());
    with_bias(layer.down_bias, out, output,
              [&](kernels::Rows to, kernels::Output how) { backend_.swiglu_linear(gate_up, *layer.down, to, how); });
  }

  /// The bias is part of the addend: it is added before the addend is added to anything.
  template <class Product>
  void with_bias(const std::vector<float>& bias, kernels::Rows out, kernels::Output output, const Product& product) {
    if (bias.empty()) return product(out, output);
    const kernels::Rows addend = output == kernels::Output::kAdd ? products_.rows(out.count) : out;
    product(addend, kernels::Output::kStore);
    backend_.add_bias(addend, bias.data());
    if (output == kernels::Output::kAdd) backend_.add(out, addend);
  }

  /// q of the wanted rows; K and V of a row are not read behind its cache.
  kernels::Rows narrowed_queries(kernels::Rows qkv, std::span<const std::uint32_t> wanted) {
    const kernels::Rows narrowed = narrowed_.rows(wanted.size());
    backend_.synchronize();
    for (std::size_t i = 0; i < wanted.size(); ++i) std::copy_n(qkv.row(wanted[i]), q_width_, narrowed.row(i));
    return narrowed;
  }

  /// The wanted rows as runs of neighbouring positions.
  std::span<const kernels::SequenceRows> narrowed_sequences(std::span<const kernels::SequenceRows> sequences,
                                                            std::span<const std::uint32_t> wanted) {
    narrowed_sequences_.clear();
    std::size_t i = 0;
    for (const kernels::SequenceRows& whole : sequences) {
      for (bool begins = true; i < wanted.size() && wanted[i] < whole.first_row + whole.rows; ++i, begins = false) {
        if (begins || wanted[i] != wanted[i - 1] + 1)
          narrowed_sequences_.push_back({i, 0, whole.position + static_cast<std::uint32_t>(wanted[i] - whole.first_row), whole.blocks});
        ++narrowed_sequences_.back().rows;
      }
    }
    return narrowed_sequences_;
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
  const bool adds_output_biases_;  // one tensor rank does, so that each is added once
  std::size_t q_width_ = 0, weight_bytes_ = 0;
  kernels::RopeTable rope_;
  std::unique_ptr<kernels::Weight> embeddings_, head_;  // head_ is null where it is the table
  std::vector<float> final_norm_;
  std::vector<Layer> layers_;
  RowBuffer qkv_, narrowed_, attended_, gate_up_, products_;
  std::vector<kernels::SequenceRows> narrowed_sequences_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_llama(std::shared_ptr<const weights::GgufFile> file, kernels::Backend& backend,
                                          const LoadProgress& progress, weights::PackCache* cache, const LoadPart& part) {
  auto config = read_llama_config(*file);
  if (!config) return config.error();
  const auto slice = slice_model(*config, part);
  if (!slice) return slice.error();
  auto model = std::make_unique<LlamaModel>(*config, *slice, part.place.tensor_rank() == 0, backend);
  WeightLoader loader(*file, backend, cache, progress);
  model->load(loader);  // only looks: whether all is there, and how much
  loader.begin_reading();
  model->load(loader);
  if (loader.error()) return *loader.error();
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace troupe::model
