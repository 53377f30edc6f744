#include "tests/support/tiny_model.h"

#include "messages/error.h"
#include "runtime/weights/format_table.h"
#include "tests/support/random.h"

#include <array>
#include <cmath>
#include <set>

namespace troupe::test {
namespace {
using kernels::StorageType;

constexpr const char* kTinyTemplate =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a tiny "
    "model<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// GPT-2's printable alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 and up, in order.
std::string alphabet_symbol(unsigned byte) {
  const auto printable = [](unsigned b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff); };
  unsigned code = byte;
  if (!printable(byte)) {
    code = 0x100;
    for (unsigned b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

/// Merges in rank order: common English first, then pairs of letters for as long as there is room.
std::vector<std::string> tiny_merges(std::size_t count) {
  const std::string g = alphabet_symbol(' ');
  std::vector<std::string> merges;
  std::set<std::string> made;
  const auto add = [&](const std::string& left, const std::string& right) {
    if (merges.size() < count && made.insert(left + right).second) merges.push_back(left + " " + right);
  };
  constexpr std::array<const char*, 24> kPairs{"t h", "h e", "i n", "e r", "a n", "r e", "o n", "a t", "e n", "o r", "e s", "i s",
                                               "l l", "o u", "e d", "a r", "s t", "i t", "a l", "n d", "u r", "o w", "v e", "y o"};
  add(g, "t");
  add("h", "e");
  add(g + "t", "he");
  add(g, "a");
  add(g, "s");
  add(g, "w");
  for (const std::string pair : kPairs) add(pair.substr(0, 1), pair.substr(2));
  add("in", "g");
  add("an", "d");
  add(g + "a", "nd");
  add("yo", "u");
  for (char left = 'a'; left <= 'z'; ++left)
    for (char right = 'a'; right <= 'z'; ++right) add(std::string(1, left), std::string(1, right));
  TROUPE_CHECK(merges.size() == count);
  return merges;
}

class ModelWriter {
 public:
  explicit ModelWriter(const TinyModelOptions& options) : options_(options), random_(options.seed) {}

  GgufWriter write() {
    metadata();
    tokenizer();
    tensors();
    return std::move(writer_);
  }

 private:
  void metadata() {
    writer_.text("general.architecture", "llama").text("general.name", "tiny");
    number("llama.block_count", options_.layers);
    number("llama.context_length", options_.context);
    number("llama.embedding_length", options_.hidden);
    number("llama.feed_forward_length", options_.ffn);
    number("llama.attention.head_count", options_.q_heads);
    number("llama.attention.head_count_kv", options_.kv_heads);
    if (options_.q_heads * options_.head_dim != options_.hidden) {  // else both are implied
      number("llama.attention.key_length", options_.head_dim);
      number("llama.attention.value_length", options_.head_dim);
    }
    number("llama.rope.dimension_count", options_.head_dim);
    number("llama.vocab_size", options_.vocabulary);
    writer_.real("llama.rope.freq_base", 10000.0F).real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  }

  void tokenizer() {
    const text::Vocabulary vocabulary = tiny_vocabulary(options_.vocabulary);
    writer_.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", vocabulary.pre);
    writer_.texts("tokenizer.ggml.tokens", vocabulary.tokens).integers("tokenizer.ggml.token_type", vocabulary.types);
    writer_.texts("tokenizer.ggml.merges", vocabulary.merges);
    number("tokenizer.ggml.bos_token_id", *vocabulary.bos);
    number("tokenizer.ggml.eos_token_id", *vocabulary.eos);
    writer_.boolean("tokenizer.ggml.add_bos_token", vocabulary.add_bos);
    writer_.boolean("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
    writer_.text("tokenizer.chat_template", kTinyTemplate);
  }

  void tensors() {
    const std::size_t q = options_.q_heads * options_.head_dim, kv = options_.kv_heads * options_.head_dim;
    const StorageType embedding_type = options_.embedding_type.value_or(options_.type);
    embedding("token_embd.weight", embedding_type);
    for (std::size_t layer = 0; layer < options_.layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      norm(prefix + "attn_norm.weight");
      // Sharp queries and keys: attention picks single tokens, so the output depends on the order of the whole context. Addends
      // outweigh the embedding in the residual stream, so that a tied head does not just repeat the last token.
      matrix(prefix + "attn_q.weight", q, options_.hidden, 2.0F);
      matrix(prefix + "attn_k.weight", kv, options_.hidden, 2.0F);
      matrix(prefix + "attn_v.weight", kv, options_.hidden, 1.0F);
      matrix(prefix + "attn_output.weight", options_.hidden, q, 4.0F);
      norm(prefix + "ffn_norm.weight");
      matrix(prefix + "ffn_gate.weight", options_.ffn, options_.hidden, 1.5F);
      matrix(prefix + "ffn_up.weight", options_.ffn, options_.hidden, 1.5F);
      matrix(prefix + "ffn_down.weight", options_.hidden, options_.ffn, 4.0F);
      if (!options_.biases) continue;
      bias(prefix + "attn_q.bias", q);
      for (const char* name : {"attn_k.bias", "attn_v.bias"}) bias(prefix + name, kv);
      for (const char* name : {"ffn_gate.bias", "ffn_up.bias"}) bias(prefix + name, options_.ffn);
      for (const char* name : {"attn_output.bias", "ffn_down.bias"}) bias(prefix + name, options_.hidden);
    }
    norm("output_norm.weight");
    if (!options_.tied) embedding("output.weight", embedding_type);
  }

  void number(const char* key, std::size_t value) { writer_.unsigned_integer(key, static_cast<std::uint32_t>(value)); }

  void norm(const std::string& name) {
    std::vector<float> values(options_.hidden);
    for (float& value : values) value = 1.0F + 0.1F * random_.normal();
    writer_.tensor(name, {options_.hidden}, StorageType::kF32, values);
  }

  void bias(const std::string& name, std::size_t length) {
    writer_.tensor(name, {length}, StorageType::kF32, random_matrix(1, length, 0.5F));
  }

  /// `gain`: deviation of the outputs for inputs of deviation 1.
  void matrix(const std::string& name, std::size_t rows, std::size_t cols, float gain) {
    put(name, rows, cols, options_.type, random_matrix(rows, cols, gain / std::sqrt(static_cast<float>(cols))));
  }

  /// Logits get a deviation of 3: spread, but no certainty. Control tokens get small rows, so that greedy output seldom ends.
  void embedding(const char* name, StorageType type) {
    std::vector<float> values = random_matrix(options_.vocabulary, options_.hidden, 3.0F / std::sqrt(static_cast<float>(options_.hidden)));
    for (std::size_t i = 0; i < 3 * options_.hidden; ++i) values[i] *= 0.05F;
    put(name, options_.vocabulary, options_.hidden, type, values);
  }

  std::vector<float> random_matrix(std::size_t rows, std::size_t cols, float deviation) {
    std::vector<float> values(rows * cols);
    for (float& value : values) value = deviation * random_.normal();
    return values;
  }

  void put(const std::string& name, std::size_t rows, std::size_t cols, StorageType type, const std::vector<float>& values) {
    if (cols % weights::format_of(type).block_elements != 0) type = StorageType::kQ8_0;
    writer_.tensor(name, {cols, rows}, type, values);
  }

  const TinyModelOptions& options_;
  SmallRandom random_;
  GgufWriter writer_;
};

}  // namespace

text::Vocabulary tiny_vocabulary(std::size_t size) {
  constexpr std::int32_t kNormal = 1, kControl = 3;
  constexpr std::size_t kBase = 3 + 256;
  TROUPE_CHECK(size >= kBase);
  text::Vocabulary vocabulary;
  vocabulary.pre = "smollm";
  vocabulary.tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  vocabulary.types.assign(3, kControl);
  for (unsigned byte = 0; byte < 256; ++byte) vocabulary.tokens.push_back(alphabet_symbol(byte));
  vocabulary.merges = tiny_merges(size - kBase);
  for (const std::string& merge : vocabulary.merges) {
    const std::size_t space = merge.find(' ');
    vocabulary.tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  vocabulary.types.resize(size, kNormal);
  vocabulary.bos = kTinyImStart;
  vocabulary.eos = kTinyImEnd;
  return vocabulary;
}

GgufWriter tiny_model(const TinyModelOptions& options) { return ModelWriter(options).write(); }

std::filesystem::path write_tiny_model(const std::filesystem::path& dir, const TinyModelOptions& options) {
  std::filesystem::create_directories(dir);
  const std::filesystem::path path = dir / options.file_name;
  tiny_model(options).write(path);
  return path;
}

}  // namespace troupe::test
