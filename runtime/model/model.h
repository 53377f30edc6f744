// Model: an architecture's config, one rank's slice of its packed weights, and segments. A model never communicates: each segment yields
// this rank's addend and the executor owns the reduce and the residual between segments.
// Immutable after load, but for backend scratch; used by one compute thread.
#pragma once
#include "kernels/backend.h"
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/model/model_config.h"
#include "runtime/model/model_slice.h"
#include "runtime/weights/gguf_file.h"
#include "runtime/weights/pack_cache.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::model {

/// The rows of one step, as a segment sees them, or a part of them.
struct Chunk {
  std::span<const kernels::SequenceRows> sequences;
  std::size_t rows = 0;
  /// Rows that are read behind the last segment, ascending: see Model::narrows. Absent: all.
  std::optional<std::span<const std::uint32_t>> wanted = {};
};

class Model {
 public:
  virtual ~Model() = default;
  const ModelConfig& config() const { return config_; }
  const ModelSlice& slice() const { return slice_; }
  /// Two a layer of this rank: attention (even numbers), then the MLP.
  std::size_t num_segments() const { return 2 * slice_.layers.count; }
  /// Attention of the model's very last layer: it stores K and V of all rows, but its addend has the rows of chunk.wanted alone, in that
  /// order; so has all that follows. Without a wanted row its addend is empty, and what follows has nothing to do.
  bool narrows(std::size_t segment) const { return slice_.layers.end() == config_.layers && segment + 2 == num_segments(); }
  /// Where slice().embeds.
  virtual void embed(std::span<const TokenId> tokens, kernels::Rows hidden) = 0;
  /// out = segment(hidden), this rank's addend, or out += segment(hidden), with the same bits as the addend and one addition; out may be
  /// hidden itself unless it has fewer rows. Rows of K and V of the segment's layer are stored on the way; `kv` has this rank's layers
  /// and kv heads.
  virtual void run_segment(std::size_t segment, const Chunk& chunk, kernels::Rows hidden, kernels::KvCache& kv, kernels::Rows out,
                           kernels::Output output) = 0;
  /// This rank's columns of the logits of the given rows, out [rows, slice().vocabulary.count]. Where slice().has_head.
  virtual void logits(kernels::Rows hidden, kernels::Rows out) = 0;
  virtual std::size_t weight_bytes() const = 0;

 protected:
  ModelConfig config_;
  ModelSlice slice_;
};

/// bytes done, bytes in all
using LoadProgress = std::function<void(std::size_t, std::size_t)>;

/// Reads and checks the config only (cheap).
Result<ModelConfig> read_config(const weights::GgufFile& file);
/// Row of model_table.cpp by general.architecture; packs the weights of this rank's part with the backend, or takes them packed from
/// `cache` (nullptr: none), which is told of every matrix and must not outlive the model. Of the file, only that part is read.
Result<std::unique_ptr<Model>> load_model(std::shared_ptr<const weights::GgufFile> file, kernels::Backend& backend,
                                          const LoadProgress& progress, weights::PackCache* cache = nullptr, const LoadPart& part = {});
/// Hash over weights, backend class, spec revision, activation scheme, KV format, tp, pp, codec: what must be equal for equal tokens.
/// `codec`: a row of the codec table; "none" with one rank.
Hash128 numerics_id(const Hash128& content, kernels::WeightFormat weights, kernels::Activations activations, kernels::KvFormat kv,
                    const base::ParallelShape& shape = {}, std::string_view codec = "none");

}  // namespace troupe::model
