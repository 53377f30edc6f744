// Sources: the tokenizer.json files of the models and llama.cpp's src/llama-vocab.cpp, which agree on these rules.
#include "runtime/text/pre_tokenizer_table.h"

#include <array>

namespace troupe::text {
namespace {

// Unicode's White_Space, which the reference means by \s; PCRE2's own \s also takes U+180E.
#define SPACES R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
#define SPACE "[" SPACES "]"
#define NOT_SPACE "[^" SPACES "]"

#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" SPACES R"(\p{L}\p{N}]+|)" SPACE "+(?!" NOT_SPACE ")|" SPACE "+"
// Llama 3 and its kin differ only in how many digits make a word.
#define LLAMA3(digits)                                                                                                   \
  R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" digits R"(| ?[^)" SPACES \
  R"(\p{L}\p{N}]+[\r\n]*|)" SPACE R"(*[\r\n]+|)" SPACE "+(?!" NOT_SPACE ")|" SPACE "+"

constexpr const char* kGpt2[] = {GPT2};
constexpr const char* kDigitsThenGpt2[] = {R"(\p{N})", GPT2};
constexpr const char* kLlama3[] = {LLAMA3("{1,3}")};
constexpr const char* kQwen2[] = {LLAMA3("")};
constexpr const char* kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"};

constexpr std::array kRules{
    // The reference ids in tests/data/golden come from the GPT-2 rule alone. llama.cpp cuts digits out first, as for "starcoder": that
    // differs where two or more blanks, or a newline, stand before a number (the vocabulary itself has no token of two digits).
    PreTokenizerRule{"smollm", kGpt2, false},
    PreTokenizerRule{"starcoder", kDigitsThenGpt2, false},
    PreTokenizerRule{"refact", kDigitsThenGpt2, false},
    PreTokenizerRule{"command-r", kDigitsThenGpt2, false},
    PreTokenizerRule{"gpt-2", kGpt2, false},
    PreTokenizerRule{"phi-2", kGpt2, false},
    PreTokenizerRule{"olmo", kGpt2, false},
    PreTokenizerRule{"llama-bpe", kLlama3, true},
    PreTokenizerRule{"llama3", kLlama3, true},
    PreTokenizerRule{"llama-v3", kLlama3, true},
    PreTokenizerRule{"qwen2", kQwen2, false},
    PreTokenizerRule{"deepseek-r1-qwen", kQwen2, false},
    PreTokenizerRule{"stablelm2", kQwen2, false},
    PreTokenizerRule{"default", kDefault, false},
};

}  // namespace

std::span<const PreTokenizerRule> pre_tokenizer_rules() { return kRules; }

}  // namespace troupe::text
