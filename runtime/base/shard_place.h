// ShardPlace: where a rank stands in its group. Ranks of a stage are neighbours: rank = stage * tensor_ranks + tensor_rank.
// Plain values; any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::base {

struct ParallelShape {
  std::uint16_t tensor_ranks = 1;  // tp: ranks that share each layer
  std::uint16_t stages = 1;        // pp: groups of consecutive layers
  std::size_t ranks() const { return std::size_t{tensor_ranks} * stages; }
  friend bool operator==(const ParallelShape&, const ParallelShape&) = default;
};

struct ShardPlace {
  ParallelShape shape;
  std::uint16_t rank = 0;
  std::size_t tensor_rank() const { return rank % shape.tensor_ranks; }
  std::size_t stage() const { return rank / shape.tensor_ranks; }
  bool in_first_stage() const { return stage() == 0; }
  bool in_last_stage() const { return stage() + 1u == shape.stages; }
  /// Rank 0 of the last stage: it samples and sends the results.
  std::size_t sampling_rank() const { return (shape.stages - 1u) * shape.tensor_ranks; }
  bool samples() const { return rank == sampling_rank(); }
  friend bool operator==(const ShardPlace&, const ShardPlace&) = default;
};

}  // namespace troupe::base
