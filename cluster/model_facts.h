// ModelFacts: what `troupe inspect` tells of a model file. Read once from the file's head; a plain value.
#pragma once
#include "messages/error.h"
#include "runtime/model/model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster {

struct ModelFacts {
  struct Format {
    std::string name;  // of GGUF, for example "Q4_1"
    std::uint64_t tensors = 0, bytes = 0, parameters = 0;
  };
  struct TensorClass {
    std::string name;  // embeddings, attention, mlp, norms, output, other
    std::vector<Format> formats;
  };
  struct KvMemory {
    std::string format;  // as --kv-format has it
    std::uint64_t bytes_a_token = 0, bytes_a_context = 0;
  };
  struct Vocabulary {
    std::string kind, pre;  // tokenizer.ggml.model and .pre
    std::size_t tokens = 0, merges = 0;
    std::string bos, eos;
    std::vector<std::string> ends;  // texts of the tokens that end an answer
    std::string chat_template;      // "none: ChatML", or its size
  };

  std::string path, name, architecture;
  std::uint64_t file_bytes = 0, parameters = 0, tensors = 0, weight_bytes = 0;
  std::vector<TensorClass> classes;
  std::optional<model::ModelConfig> config;  // absent: see problems
  std::optional<Vocabulary> vocabulary;
  std::vector<KvMemory> kv;
  std::vector<std::string> problems;  // why it cannot be served; empty = it can
};

/// Error: no file of this kind, or a broken one. What the file holds but this program cannot serve is in `problems`.
Result<ModelFacts> read_model_facts(const std::string& path);
std::string facts_text(const ModelFacts& facts);
std::string facts_json(const ModelFacts& facts);

}  // namespace troupe::cluster
