// See stored_codec.h.
#include "cluster/launch/stored_codec.h"

#include "runtime/base/hash.h"
#include "runtime/collective/codec_table.h"

#include <cstring>
#include <fstream>
#include <span>

namespace troupe::cluster::launch {

StoredCodec::StoredCodec(base::CacheFolder folder, const Hash128& model_content, const ClusterPlan& plan, const Options& options,
                         const std::string& cpu)
    : folder_(std::move(folder)) {
  base::Hasher hash;
  hash.add(std::string_view("codec 1")).add(model_content).add(std::string_view(cpu));
  for (const std::string* text : {&options.weights, &options.activations, &options.isa, &plan.transport}) hash.add(std::string_view(*text));
  hash.add(std::uint64_t{plan.shape.tensor_ranks}).add(std::uint64_t{plan.shape.stages}).add(options.threads);
  for (const RankPlan& rank : plan.ranks)
    hash.add(std::string_view(rank.network_namespace)).add(std::string_view(rank.interface)).add(std::uint64_t{rank.cores.size()});
  name_ = "parallel-" + base::hex(hash.finish());
}

std::optional<std::string> StoredCodec::find() const {
  const auto bytes = folder_.record(name_);
  if (!bytes) return std::nullopt;
  std::string codec(bytes->size(), '\0');
  std::memcpy(codec.data(), bytes->data(), bytes->size());
  if (!collective::find_codec(codec)) return std::nullopt;
  return codec;
}

Status StoredCodec::keep(const std::string& codec) const { return folder_.keep_record(name_, std::as_bytes(std::span(codec))); }

std::string cpu_description() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  return {};
}

}  // namespace troupe::cluster::launch
