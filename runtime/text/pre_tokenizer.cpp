#include "runtime/text/pre_tokenizer.h"

#include "messages/error_reasons.h"
#include "runtime/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace troupe::text {

/// A compiled expression. Matching writes only to match data of the call, so that threads can share it.
class PreTokenizer::Pattern {
 public:
  explicit Pattern(const char* expression) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    TROUPE_CHECK(code_ != nullptr);                // the expressions are ours, not the model file's
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // where there is no JIT, matching interprets
  }
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// Appends the matches in `text` (valid UTF-8) and the gaps between them.
  void cut(std::string_view text, std::vector<std::string_view>& out) const {
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create_from_pattern(code_, nullptr),
                                                                                    &pcre2_match_data_free);
    TROUPE_CHECK(match != nullptr);
    std::size_t done = 0;
    while (done < text.size()) {
      std::size_t begin = text.size(), end = text.size();
      if (find(text, done, match.get())) {
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
        begin = bounds[0];
        end = bounds[1];
        TROUPE_CHECK(end > begin);  // no rule matches the empty text
      }
      if (begin > done) out.push_back(text.substr(done, begin - done));
      if (end > begin) out.push_back(text.substr(begin, end - begin));
      done = end;
    }
  }

 private:
  bool find(std::string_view text, std::size_t from, pcre2_match_data* match) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    constexpr std::uint32_t kChecked = PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(code_, subject, text.size(), from, kChecked, match, nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code_, subject, text.size(), from, kChecked | PCRE2_NO_JIT, match, nullptr);
    return found > 0;  // beyond the interpreter's limits too: the rest stays one word, which is still right as bytes
  }

  pcre2_code* code_ = nullptr;
};

Result<PreTokenizer> PreTokenizer::make(std::string_view rule_name) {
  const auto rules = pre_tokenizer_rules();
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const PreTokenizerRule& row) { return row.name == rule_name; });
  if (rule == rules.end()) {
    std::string known;
    for (const PreTokenizerRule& row : rules) known += (known.empty() ? "" : ", ") + std::string(row.name);
    return make_error(ErrorClass::kCorrupted, ErrorReason::kUnsupportedModel,
                      "tokenizer.ggml.pre: this pre-tokenizer rule is not known; these are: " + known, "tokenizer.ggml.pre");
  }
  std::vector<std::shared_ptr<const Pattern>> stages;
  for (const char* expression : rule->stages) stages.push_back(std::make_shared<const Pattern>(expression));
  return PreTokenizer(*rule, std::move(stages));
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  std::size_t valid_from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at, 4));
    if (step.kind != Utf8::kValid) {
      split_valid(text.substr(valid_from, at - valid_from), words);
      for (std::size_t i = 0; i < step.length; ++i) words.push_back(text.substr(at + i, 1));
      valid_from = at + step.length;
    }
    at += step.length;
  }
  split_valid(text.substr(valid_from), words);
}

void PreTokenizer::split_valid(std::string_view text, std::vector<std::string_view>& words) const {
  if (text.empty()) return;
  std::vector<std::string_view> pieces{text}, next;
  for (const auto& stage : stages_) {
    next.clear();
    for (const std::string_view piece : pieces) stage->cut(piece, next);
    pieces.swap(next);
  }
  words.insert(words.end(), pieces.begin(), pieces.end());
}

}  // namespace troupe::text
