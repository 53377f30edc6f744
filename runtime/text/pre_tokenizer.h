// PreTokenizer: cuts text into the words inside which BPE merges, by a rule of pre_tokenizer_table. Immutable; any thread.
// Invariant: the words, joined, are the text, whatever its bytes; a byte outside valid UTF-8 is a word of its own.
#pragma once
#include "messages/error.h"
#include "runtime/text/pre_tokenizer_table.h"

#include <memory>
#include <string_view>
#include <vector>

namespace troupe::text {

class PreTokenizer {
 public:
  /// A name without a row is an Error{unsupported_model} that lists the rows.
  static Result<PreTokenizer> make(std::string_view rule_name);
  /// Appends the words of `text`, in order.
  void split(std::string_view text, std::vector<std::string_view>& words) const;
  bool whole_words_first() const { return rule_->whole_words_first; }

 private:
  class Pattern;
  PreTokenizer(const PreTokenizerRule& rule, std::vector<std::shared_ptr<const Pattern>> stages)
      : rule_(&rule), stages_(std::move(stages)) {}
  void split_valid(std::string_view text, std::vector<std::string_view>& words) const;

  const PreTokenizerRule* rule_;
  std::vector<std::shared_ptr<const Pattern>> stages_;
};

}  // namespace troupe::text
