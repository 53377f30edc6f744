// The Llama architecture: Llama 1-3, SmolLM2 and other files with general.architecture = "llama".
// Two segments a layer: attention with its output projection, then the MLP with its down projection.
#pragma once
#include "runtime/model/model.h"

namespace troupe::model {

Result<ModelConfig> read_llama_config(const weights::GgufFile& file);
Result<std::unique_ptr<Model>> load_llama(std::shared_ptr<const weights::GgufFile> file, kernels::Backend& backend,
                                          const LoadProgress& progress, weights::PackCache* cache, const LoadPart& part);

}  // namespace troupe::model
