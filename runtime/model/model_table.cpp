#include "runtime/model/model_table.h"

#include "runtime/model/config_reader.h"
#include "runtime/model/llama.h"

#include <array>

namespace troupe::model {
namespace {

constexpr std::array kArchitectures{
    Architecture{"llama", "Llama 1-3 and its relatives: GQA, RoPE, SwiGLU, RMSNorm", read_llama_config, load_llama},
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

Result<const Architecture*> find_architecture(const weights::GgufFile& file) {
  const auto name = file.text("general.architecture");
  if (!name) return file.bad("general.architecture", "missing");
  for (const Architecture& row : kArchitectures)
    if (row.name == *name) return &row;
  std::string known;
  for (const Architecture& row : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(row.name);
  return unsupported(file, "general.architecture", "'" + printable(*name) + "' is not supported (supported: " + known + ")");
}

Result<ModelConfig> read_config(const weights::GgufFile& file) {
  auto row = find_architecture(file);
  if (!row) return row.error();
  return (*row)->read_config(file);
}

Result<std::unique_ptr<Model>> load_model(std::shared_ptr<const weights::GgufFile> file, kernels::Backend& backend,
                                          const LoadProgress& progress, weights::PackCache* cache, const LoadPart& part) {
  auto row = find_architecture(*file);
  if (!row) return row.error();
  return (*row)->load(std::move(file), backend, progress, cache, part);
}

}  // namespace troupe::model
