#include "runtime/model/model_slice.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <numeric>

namespace troupe::model {
namespace {

constexpr std::size_t kHeadUnit = 48;  // outputs of the head: a panel of the packed weight

Error indivisible(const char* option, std::size_t ranks, const std::string& what) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                    std::string(option) + ": " + std::to_string(ranks) + " are too many: " + what, option);
}
constexpr const char *kTensorParallel = "tensor-parallel", *kPipelineParallel = "pipeline-parallel";

/// Share `index` of `shares` of `count` things; the first ones get what is left over.
Range share_of(std::size_t count, std::size_t shares, std::size_t index) {
  const std::size_t each = count / shares, more = count % shares;
  return {index * each + std::min(index, more), each + (index < more ? 1 : 0)};
}
/// The same in whole units; a last unit may be shorter.
Range share_of_units(std::size_t count, std::size_t unit, std::size_t shares, std::size_t index) {
  const Range units = share_of((count + unit - 1) / unit, shares, index);
  const std::size_t first = std::min(count, units.first * unit);
  return {first, std::min(count, units.end() * unit) - first};
}

/// Whole kv heads with their q heads where there are enough; else neighbouring ranks share the q heads of one.
Status slice_heads(const ModelConfig& config, std::size_t ranks, std::size_t rank, ModelSlice& slice) {
  const std::size_t group = config.q_heads / config.kv_heads;
  // q heads stay together as far as an input of attn_output may be cut between them.
  const std::size_t together = config.attended_unit / std::gcd(config.attended_unit, config.head_dim);
  const std::string inputs = "attn_output.weight can only be cut at multiples of " + std::to_string(config.attended_unit) + " inputs, " +
                             std::to_string(together) + " heads of " + std::to_string(config.head_dim);
  if (ranks <= config.kv_heads) {
    const std::size_t kv_together = together / std::gcd(together, group);
    const std::size_t units = (config.kv_heads + kv_together - 1) / kv_together;
    if (units < ranks)
      return indivisible(kTensorParallel, ranks, inputs + "; attention.head_count_kv is " + std::to_string(config.kv_heads));
    slice.kv_heads = share_of_units(config.kv_heads, kv_together, ranks, rank);
    slice.q_heads = {slice.kv_heads.first * group, slice.kv_heads.count * group};
    return ok_status();
  }
  std::size_t kv_head = 0;
  while (share_of(ranks, config.kv_heads, kv_head).end() <= rank) ++kv_head;
  const Range sharing = share_of(ranks, config.kv_heads, kv_head);  // the ranks of this kv head
  if (sharing.count > group) return indivisible(kTensorParallel, ranks, "attention.head_count is " + std::to_string(config.q_heads));
  // Also where this kv head is not shared: the neighbour's first input begins behind it.
  if (group % together != 0 || sharing.count > group / together)
    return indivisible(kTensorParallel, ranks,
                       inputs + "; attention.head_count_kv is " + std::to_string(config.kv_heads) + ", each has " + std::to_string(group));
  const Range q_heads = share_of_units(group, together, sharing.count, rank - sharing.first);
  slice.kv_heads = {kv_head, 1};
  slice.q_heads = {kv_head * group + q_heads.first, q_heads.count};
  return ok_status();
}

}  // namespace

std::string part_name(const LoadPart& part) {
  if (part.whole()) return {};
  const base::ShardPlace& place = part.place;
  return "rank " + std::to_string(place.rank) + " of " + std::to_string(place.shape.tensor_ranks) + " x " +
         std::to_string(place.shape.stages) + (part.slice_head ? "" : ", whole head");
}

Result<ModelSlice> slice_model(const ModelConfig& config, const LoadPart& part) {
  const base::ParallelShape& shape = part.place.shape;
  TROUPE_CHECK(shape.tensor_ranks >= 1 && shape.stages >= 1 && part.place.rank < shape.ranks());
  const std::size_t ranks = shape.tensor_ranks, rank = part.place.tensor_rank();
  ModelSlice slice;
  if (shape.stages > config.layers) return indivisible(kPipelineParallel, shape.stages, "block_count is " + std::to_string(config.layers));
  // The last stage has the head, too, so it is never the one with a layer more.
  slice.layers = share_of(config.layers, shape.stages, part.place.stage());
  if (const Status heads = slice_heads(config, ranks, rank, slice); !heads) return heads.error();
  if (config.ffn / config.ffn_unit < ranks)
    return indivisible(kTensorParallel, ranks,
                       "ffn_down.weight can only be cut at multiples of " + std::to_string(config.ffn_unit) +
                           " inputs; feed_forward_length is " + std::to_string(config.ffn));
  slice.ffn = share_of_units(config.ffn, config.ffn_unit, ranks, rank);
  slice.embeds = part.place.in_first_stage();
  slice.has_head = part.place.in_last_stage() && (part.slice_head || rank == 0);
  if (!slice.has_head) return slice;
  if (!part.slice_head) {
    slice.vocabulary = {0, config.vocabulary};
    return slice;
  }
  slice.vocabulary = share_of_units(config.vocabulary, config.vocabulary < kHeadUnit * ranks ? 1 : kHeadUnit, ranks, rank);
  if (config.vocabulary < ranks)
    return indivisible(kTensorParallel, ranks, "token_embd.weight has " + std::to_string(config.vocabulary) + " rows");
  return slice;
}

}  // namespace troupe::model
