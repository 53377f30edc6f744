// Reading of the facts; how they are written is in model_facts_text.cpp.
#include "cluster/model_facts.h"

#include "messages/ids.h"
#include "runtime/exec/kv_memory.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/format_table.h"
#include "runtime/weights/gguf_file.h"

#include <algorithm>
#include <string_view>

namespace troupe::cluster {
namespace {

std::string_view class_of(std::string_view tensor) {
  if (tensor.starts_with("token_embd")) return "embeddings";
  if (tensor == "output.weight") return "output";
  if (tensor.find("norm") != std::string_view::npos) return "norms";
  if (tensor.find(".attn_") != std::string_view::npos) return "attention";
  if (tensor.find(".ffn_") != std::string_view::npos) return "mlp";
  return "other";
}

/// The entry of that name, made where there is none.
template <class Entry>
Entry& entry_of(std::vector<Entry>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.name == name; });
  if (found != entries.end()) return *found;
  entries.emplace_back().name = name;
  return entries.back();
}

void count_tensors(const weights::GgufFile& file, ModelFacts& facts) {
  for (const std::string_view name : {"embeddings", "attention", "mlp", "norms", "output", "other"}) entry_of(facts.classes, name);
  for (const weights::Tensor& tensor : file.tensors()) {
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : tensor.shape) elements *= extent;
    auto& format = entry_of(entry_of(facts.classes, class_of(tensor.name)).formats, weights::format_of(tensor.type).name);
    ++format.tensors;
    format.bytes += tensor.bytes;
    format.parameters += elements;
    facts.parameters += elements;
    facts.weight_bytes += tensor.bytes;
    ++facts.tensors;
  }
  std::erase_if(facts.classes, [](const auto& one) { return one.formats.empty(); });
}

void add_kv_memory(ModelFacts& facts) {
  const model::ModelConfig& config = *facts.config;
  for (const auto& [name, format] : exec::kv_formats()) {
    const std::uint64_t block = kernels::kv_block_bytes(
        {.layers = config.layers, .kv_heads = config.kv_heads, .head_dim = config.head_dim, .blocks = 1, .format = format});
    facts.kv.push_back({std::string(name), block / kBlockTokens, (config.context + kBlockTokens - 1) / kBlockTokens * block});
  }
}

void add_vocabulary(const weights::GgufFile& file, ModelFacts& facts) {
  auto read = weights::read_vocabulary(file);
  if (!read) {
    facts.problems.push_back(read.error().client_text);
    return;
  }
  ModelFacts::Vocabulary out;
  out.kind = file.text("tokenizer.ggml.model").value_or("");
  out.pre = read->pre;
  out.tokens = read->tokens.size();
  out.merges = read->merges.size();
  const auto tokenizer = text::Tokenizer::make(*std::move(read));
  if (!tokenizer) {
    facts.problems.push_back(tokenizer.error().client_text);
    facts.vocabulary = std::move(out);
    return;
  }
  const auto token_text = [&](std::optional<TokenId> id) { return id ? std::string((*tokenizer)->bytes(*id)) : std::string(); };
  out.bos = token_text((*tokenizer)->bos());
  out.eos = token_text((*tokenizer)->eos());
  for (const TokenId id : (*tokenizer)->end_of_generation()) out.ends.push_back(token_text(id));
  const std::string source = file.text("tokenizer.chat_template").value_or("");
  out.chat_template = source.empty() ? "none; ChatML is used" : std::to_string(source.size()) + " bytes";
  if (const auto made = text::ChatTemplate::compile(source, out.bos, out.eos); !made) facts.problems.push_back(made.error().client_text);
  facts.vocabulary = std::move(out);
}

}  // namespace

Result<ModelFacts> read_model_facts(const std::string& path) {
  const auto opened = weights::GgufFile::open(path);
  if (!opened) return opened.error();
  const weights::GgufFile& file = **opened;
  ModelFacts facts;
  facts.path = path;
  facts.name = file.text("general.name").value_or("");
  facts.architecture = file.text("general.architecture").value_or("");
  facts.file_bytes = file.size_bytes();
  count_tensors(file, facts);
  if (const auto config = model::read_config(file)) {
    facts.config = *config;
    add_kv_memory(facts);
  } else {
    facts.problems.push_back(config.error().client_text);
  }
  add_vocabulary(file, facts);
  return facts;
}

}  // namespace troupe::cluster
