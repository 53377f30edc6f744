// Pre-tokenizer rules by the name that model files give them (tokenizer.ggml.pre). A new rule is a row.
#pragma once
#include <span>
#include <string_view>

namespace troupe::text {

struct PreTokenizerRule {
  std::string_view name;
  /// Regular expressions (PCRE2) applied one after the other: each cuts every word of the one before into its matches and the gaps.
  std::span<const char* const> stages;
  /// A word that is a token as a whole is that token, without asking the merges ("ignore_merges" of the reference).
  bool whole_words_first;
};
std::span<const PreTokenizerRule> pre_tokenizer_rules();

}  // namespace troupe::text
