// What a rank holds of a model, and how that is told. Declared in cluster_check.h.
#include "cluster/launch/cluster_check.h"
#include "cluster/launch/rank_placement.h"
#include "kernels/backend.h"
#include "messages/error_reasons.h"
#include "runtime/exec/kv_memory.h"
#include "runtime/model/model_slice.h"

#include <algorithm>
#include <cstdio>

namespace troupe::cluster::launch {
namespace {

std::uint64_t class_bytes(const ModelFacts& facts, std::string_view name) {
  std::uint64_t bytes = 0;
  for (const auto& one : facts.classes)
    if (one.name == name)
      for (const auto& format : one.formats) bytes += format.bytes;
  return bytes;
}

std::uint64_t part(std::uint64_t bytes, std::size_t count, std::size_t of) {
  return of == 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(count) / static_cast<double>(of));
}

std::uint64_t block_bytes(const model::ModelConfig& config, std::size_t layers, std::size_t kv_heads, kernels::KvFormat format) {
  return kernels::kv_block_bytes({.layers = layers, .kv_heads = kv_heads, .head_dim = config.head_dim, .blocks = 1, .format = format});
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }

}  // namespace

Result<std::vector<RankNeeds>> rank_needs(const ModelFacts& facts, const Options& options, std::uint64_t memory_bytes) {
  const model::ModelConfig& config = *facts.config;
  base::ParallelShape shape;
  shape.tensor_ranks = static_cast<std::uint16_t>(options.tensor_parallel);
  shape.stages = static_cast<std::uint16_t>(options.pipeline_parallel);
  const std::uint64_t head = class_bytes(facts, "output") > 0 ? class_bytes(facts, "output") : class_bytes(facts, "embeddings");
  const auto kv_format = exec::find_kv_format(options.kv_format);
  if (!kv_format) return kv_format.error();
  const auto blocks = exec::choose_device_blocks(block_bytes(config, config.layers, config.kv_heads, *kv_format), config.context,
                                                 options.kv_memory, memory_bytes);
  if (!blocks) return blocks.error();
  std::vector<RankNeeds> needs(shape.ranks());
  for (std::size_t rank = 0; rank < needs.size(); ++rank) {
    const auto slice = model::slice_model(config, {.place = {shape, static_cast<std::uint16_t>(rank)}});
    if (!slice) return slice.error();
    RankNeeds& need = needs[rank];
    need.first_layer = slice->layers.first;
    need.layers = slice->layers.count;
    const std::uint64_t layers = part(class_bytes(facts, "attention"), slice->q_heads.count, config.q_heads) +
                                 part(class_bytes(facts, "mlp"), slice->ffn.count, config.ffn);
    need.weight_bytes = part(layers, slice->layers.count, config.layers) + (slice->embeds ? class_bytes(facts, "embeddings") : 0) +
                        part(head, slice->vocabulary.count, config.vocabulary);
    need.kv_bytes = *blocks * block_bytes(config, slice->layers.count, slice->kv_heads.count, *kv_format);
  }
  return needs;
}

std::string cluster_summary(const CheckedCluster& checked, const Options& options) {
  const ClusterPlan& plan = checked.plan;
  std::string text = "cluster   " + plan.name + ": " + std::to_string(plan.ranks.size()) + " ranks (tensor parallel " +
                     std::to_string(plan.shape.tensor_ranks) + ", stages " + std::to_string(plan.shape.stages) + "), codec " + plan.codec +
                     ", overlap " + options.overlap + ", transport " + plan.transport + "\n";
  const auto line = [&](const std::vector<std::string>& words) {
    constexpr int kWidths[] = {16, 8, 6, 10, 12, 14, 12, 12, 0};
    for (std::size_t i = 0; i < words.size(); ++i) {
      char cell[128];
      std::snprintf(cell, sizeof cell, i + 1 < words.size() ? "%-*s  " : "%*s", kWidths[i], words[i].empty() ? "-" : words[i].c_str());
      text += cell;
    }
    text += "\n";
  };
  line({"node", "role", "rank", "layers", "cores", "namespace", "interface", "weights", "keys and values"});
  line({plan.gateway_node, "gateway", "", "", cores_text(plan.gateway_cores), "", "", "", ""});
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankPlan& one = plan.ranks[rank];
    const RankNeeds need = rank < checked.needs.size() ? checked.needs[rank] : RankNeeds{};
    line({one.node, "mixed", std::to_string(rank),
          std::to_string(need.first_layer) + "-" + std::to_string(need.first_layer + need.layers - 1), cores_text(one.cores),
          one.network_namespace, one.interface, mebibytes(need.weight_bytes), mebibytes(need.kv_bytes)});
  }
  for (const std::string& note : checked.notes) text += "note      " + note + "\n";
  return text;
}

}  // namespace troupe::cluster::launch
