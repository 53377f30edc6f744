// A tiny llama model, written as a GGUF file in milliseconds: random weights that behave (varied greedy output, no overflow), a
// byte-level BPE vocabulary, a chat template. The same options give the same bytes on every machine.
#pragma once
#include "kernels/backend.h"
#include "runtime/text/tokenizer.h"
#include "tests/support/gguf_writer.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::test {

struct TinyModelOptions {
  std::size_t layers = 2;
  std::size_t hidden = 64;  // multiples of 32
  std::size_t q_heads = 4;
  std::size_t kv_heads = 2;
  std::size_t head_dim = 16;
  std::size_t ffn = 96;          // a multiple of 32
  std::size_t vocabulary = 320;  // 259 (control tokens and bytes) or more, up to 900
  std::size_t context = 512;
  kernels::StorageType type = kernels::StorageType::kQ4_1;  // of the matrices; Q6_K rows that are not whole blocks become Q8_0
  std::optional<kernels::StorageType> embedding_type;       // of the embedding (and an untied head); absent: `type`
  std::uint64_t seed = 1;
  bool tied = true;
  bool biases = false;  // of all products of the layers
  std::string file_name = "tiny.gguf";
};

/// Control tokens of every tiny model, in id order.
inline constexpr TokenId kTinyEndOfText = 0, kTinyImStart = 1, kTinyImEnd = 2;

/// ids: 0 <|endoftext|>, 1 <|im_start|> (bos), 2 <|im_end|> (eos), 3...258 the bytes, then merges.
text::Vocabulary tiny_vocabulary(std::size_t size);
/// The whole model; the caller may add or break something before writing it.
GgufWriter tiny_model(const TinyModelOptions& options);
/// Writes dir / options.file_name (making `dir`) and returns that path.
std::filesystem::path write_tiny_model(const std::filesystem::path& dir, const TinyModelOptions& options);

}  // namespace troupe::test
