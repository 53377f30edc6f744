// The tokenizer's part of a model file: tokenizer.ggml.* of a byte-level BPE ("gpt2") vocabulary.
#include "messages/error_reasons.h"
#include "runtime/weights/gguf_file.h"

#include <limits>

namespace troupe::weights {
namespace {

constexpr std::size_t kVocabularyLimit = 4U << 20;

Status read_token_types(const GgufFile& file, text::Vocabulary& vocabulary) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  constexpr std::int32_t kNormal = 1;
  const auto types = file.integers(kKey);
  if (!types) {
    vocabulary.types.assign(vocabulary.tokens.size(), kNormal);
    return ok_status();
  }
  if (types->size() != vocabulary.tokens.size())
    return file.bad(kKey, "has " + std::to_string(types->size()) + " entries for " + std::to_string(vocabulary.tokens.size()) + " tokens");
  for (const std::int64_t type : *types) {
    if (type < 0 || type > 6) return file.bad(kKey, "token type " + std::to_string(type) + " is unknown (0 to 6 are possible)");
    vocabulary.types.push_back(static_cast<std::int32_t>(type));
  }
  return ok_status();
}

Status read_token_id(const GgufFile& file, const char* key, std::size_t tokens, std::optional<TokenId>& out) {
  const auto id = file.unsigned_integer(key);
  if (!id || *id == kNone32) return ok_status();  // some writers store -1 for "none"
  if (*id >= tokens) return file.bad(key, "token id " + std::to_string(*id) + " is outside the vocabulary of " + std::to_string(tokens));
  out = static_cast<TokenId>(*id);
  return ok_status();
}

}  // namespace

Result<text::Vocabulary> read_vocabulary(const GgufFile& file) {
  const auto model = file.text("tokenizer.ggml.model");
  if (!model) return file.bad("tokenizer.ggml.model", "missing, or not a text");
  if (*model != "gpt2") {
    Error error = file.bad("tokenizer.ggml.model", "this kind of tokenizer is not supported (byte-level BPE, \"gpt2\", is)");
    error.reason = ErrorReason::kUnsupportedModel;
    return error;
  }
  text::Vocabulary vocabulary;
  vocabulary.pre = file.text("tokenizer.ggml.pre").value_or("default");
  auto tokens = file.texts("tokenizer.ggml.tokens");
  if (!tokens || tokens->empty()) return file.bad("tokenizer.ggml.tokens", "missing, empty, or not a list of texts");
  if (tokens->size() > kVocabularyLimit)
    return file.bad("tokenizer.ggml.tokens",
                    std::to_string(tokens->size()) + " tokens are above the limit of " + std::to_string(kVocabularyLimit));
  vocabulary.tokens = std::move(*tokens);
  auto merges = file.texts("tokenizer.ggml.merges");
  if (!merges) return file.bad("tokenizer.ggml.merges", "missing, or not a list of texts");
  if (merges->size() > kVocabularyLimit)
    return file.bad("tokenizer.ggml.merges",
                    std::to_string(merges->size()) + " merges are above the limit of " + std::to_string(kVocabularyLimit));
  vocabulary.merges = std::move(*merges);

  if (const Status types = read_token_types(file, vocabulary); !types) return types.error();
  const struct {
    const char* key;
    std::optional<TokenId>& id;
  } ids[] = {{"tokenizer.ggml.bos_token_id", vocabulary.bos},
             {"tokenizer.ggml.eos_token_id", vocabulary.eos},
             {"tokenizer.ggml.eot_token_id", vocabulary.eot}};
  for (const auto& [key, id] : ids)
    if (const Status read = read_token_id(file, key, vocabulary.tokens.size(), id); !read) return read.error();
  vocabulary.add_bos = file.boolean("tokenizer.ggml.add_bos_token").value_or(false);
  vocabulary.add_space_prefix = file.boolean("tokenizer.ggml.add_space_prefix").value_or(false);
  return vocabulary;
}

}  // namespace troupe::weights
