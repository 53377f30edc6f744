// ServedModel: what the node needs of a model file before any weight is packed: its tokenizer, its chat template, its hash.
// Immutable; any thread.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/content_hash.h"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::cluster {

struct ServedModel {
  std::string path;
  std::string name;  // in the API
  weights::KnownContent content;
  std::uint64_t file_bytes = 0;
  std::uint32_t context_tokens = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;
};

/// Opens and checks the file. `name` empty: the file's name without ".gguf". Errors name file, field and what is wrong.
/// The file's hash is looked up in `cache`, and noted there.
Result<ServedModel> open_served_model(const std::string& path, const std::string& name, const base::CacheFolder& cache);

}  // namespace troupe::cluster
