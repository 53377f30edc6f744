// The architectures this build can run, one row each; the name is GGUF's general.architecture.
// A new one is a file beside llama.cpp and a row in model_table.cpp.
#pragma once
#include "runtime/model/model.h"

#include <span>
#include <string_view>

namespace troupe::model {

struct Architecture {
  std::string_view name;
  std::string_view help;  // one line
  Result<ModelConfig> (*read_config)(const weights::GgufFile& file);
  Result<std::unique_ptr<Model>> (*load)(std::shared_ptr<const weights::GgufFile> file, kernels::Backend& backend,
                                         const LoadProgress& progress, weights::PackCache* cache, const LoadPart& part);
};
std::span<const Architecture> architectures();
/// By the file's general.architecture; an Error if the key is absent or no row has that name.
Result<const Architecture*> find_architecture(const weights::GgufFile& file);

}  // namespace troupe::model
