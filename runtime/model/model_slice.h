// ModelSlice: the part of a model that one rank holds, as ranges of the whole. A pure function of config and place, so every rank (and who
// only checks a configuration) knows the part of each. Plain values; any thread.
// Invariants: over the ranks of a stage, every q head, FFN unit and vocabulary row is held exactly once; a kv head once, or by neighbours
// that share its q heads; every layer by all tensor ranks of one stage.
#pragma once
#include "messages/error.h"
#include "runtime/base/shard_place.h"
#include "runtime/model/model_config.h"

#include <cstddef>
#include <string>

namespace troupe::model {

struct Range {
  std::size_t first = 0, count = 0;
  std::size_t end() const { return first + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// What of a model a rank loads.
struct LoadPart {
  base::ShardPlace place;
  /// The head's outputs are divided over the tensor ranks of the last stage; else the sampling rank has the whole head. Bits are the same.
  bool slice_head = true;
  bool whole() const { return place.shape.ranks() == 1; }
};
/// Tells parts of one model apart, for names of files: empty for the whole.
std::string part_name(const LoadPart& part);

struct ModelSlice {
  Range layers;
  Range q_heads, kv_heads;  // each kv head has the same number of q heads here
  Range ffn;                // outputs of gate and up, inputs of down
  Range vocabulary;         // outputs of the head; empty without one
  bool embeds = false;      // has the embedding table, whole
  bool has_head = false;
  friend bool operator==(const ModelSlice&, const ModelSlice&) = default;
};

/// The more even, the better: neighbours differ by one layer, kv head (q head, where ranks share a kv head) or unit at most. An Error names
/// what cannot be divided among so many ranks.
Result<ModelSlice> slice_model(const ModelConfig& config, const LoadPart& part);

}  // namespace troupe::model
