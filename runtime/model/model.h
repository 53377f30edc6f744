// Model: an architecture's config, packed weights and segments. A model never communicates: each segment yields this rank's addend
// and the executor owns the reduce and the residual between segments.
// Immutable after load, but for backend scratch; used by one compute thread.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/weights/gguf_file.h"
#include "runtime/weights/pack_cache.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace troupe::model {

struct ModelConfig {
  std::string architecture;
  std::size_t layers = 0, hidden = 0, q_heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocabulary = 0, context = 0;
  float norm_eps = 1e-5F;
  double rope_base = 10000.0;
  bool tied_embeddings = false;
};

/// The rows of one step, as a segment sees them.
struct Chunk {
  std::span<const kernels::SequenceRows> sequences;
  std::size_t rows = 0;
  /// Rows that are read behind the last segment, ascending; what the others then hold is void. Absent: all.
  std::optional<std::span<const std::uint32_t>> wanted = {};
};

class Model {
 public:
  virtual ~Model() = default;
  const ModelConfig& config() const { return config_; }
  virtual std::size_t num_segments() const = 0;
  virtual void embed(std::span<const TokenId> tokens, kernels::Rows hidden) = 0;
  /// out = segment(hidden), this rank's addend, or out += segment(hidden), where out may be hidden itself. Rows of K and V of the
  /// segment's layer are stored on the way.
  virtual void run_segment(std::size_t segment, const Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, kernels::Rows out,
                           kernels::Output output) = 0;
  /// logits of the given rows; width = vocabulary padded to 16.
  virtual void logits(kernels::Rows hidden, kernels::Rows out) = 0;
  virtual std::size_t weight_bytes() const = 0;

 protected:
  ModelConfig config_;
};

/// bytes done, bytes in all
using LoadProgress = std::function<void(std::size_t, std::size_t)>;

/// Reads and checks the config only (cheap).
Result<ModelConfig> read_config(const weights::GgufFile& file);
/// Row of model_table.cpp by general.architecture; packs all weights with the backend, or takes them packed from `cache` (nullptr: none),
/// which is told of every matrix and must not outlive the model.
Result<std::unique_ptr<Model>> load_model(std::shared_ptr<const weights::GgufFile> file, kernels::Backend& backend,
                                          const LoadProgress& progress, weights::PackCache* cache = nullptr);
/// Hash over weights, backend class, spec revision, activation scheme, KV format, tp, pp, codec: what must be equal for equal tokens.
Hash128 numerics_id(const Hash128& content, kernels::WeightFormat weights, kernels::Activations activations, kernels::KvFormat kv);

}  // namespace troupe::model
