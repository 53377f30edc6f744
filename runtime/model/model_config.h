// ModelConfig: the numbers of a model file's metadata that its architecture needs, checked. Plain values; any thread.
#pragma once
#include <cstddef>
#include <string>

namespace troupe::model {

struct ModelConfig {
  std::string architecture;
  std::size_t layers = 0, hidden = 0, q_heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocabulary = 0, context = 0;
  float norm_eps = 1e-5F;
  double rope_base = 10000.0;
  bool tied_embeddings = false;
  /// Where the inputs of the attention's output and of the down projection may be cut: at multiples of these, in every layer. Blocks of the
  /// file's storage format and groups of activations stay whole.
  std::size_t attended_unit = 32, ffn_unit = 32;
};

}  // namespace troupe::model
