// Any bytes through every pre-tokenizer rule: the vocabulary has all bytes, so they must come back.
#include "runtime/text/pre_tokenizer_table.h"
#include "runtime/text/tokenizer.h"
#include "tests/support/tiny_model.h"
#include "tests/fuzz/fuzz_target.h"

#include <cstdlib>

using namespace troupe::text;

FUZZ_TARGET(tokenizer) {
  static const auto tokenizers = [] {
    std::vector<std::shared_ptr<const Tokenizer>> out;
    for (const PreTokenizerRule& rule : pre_tokenizer_rules()) {
      auto vocabulary = troupe::test::tiny_vocabulary(500);
      vocabulary.pre = rule.name;
      out.push_back(*Tokenizer::make(std::move(vocabulary)));
    }
    return out;
  }();
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : tokenizers) {
    if (tokenizer->decode(tokenizer->encode(text, false)) != text) std::abort();
    const TextPiece pieces[] = {{text.substr(0, size / 2), true}, {text.substr(size / 2), false}};
    if (tokenizer->decode(tokenizer->encode(pieces)) != text) std::abort();
  }
  return 0;
}
