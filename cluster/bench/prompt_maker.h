// PromptMaker: prompts of about a wanted number of tokens, made of random everyday words, so that no tokenizer is needed and no two
// prompts share a prefix. The words and the seed decide; the same program run twice with one seed asks the same.
#pragma once
#include <cstdint>
#include <random>
#include <string>

namespace troupe::cluster::bench {

class PromptMaker {
 public:
  explicit PromptMaker(std::uint64_t seed) : random_(seed) {}
  std::string words(std::uint32_t count);
  /// Words that make about `tokens` tokens with the chat template around them.
  std::string text(std::uint32_t tokens);
  /// From two prompts of so many words that the server counted as so many tokens.
  void calibrate(double words_a, double tokens_a, double words_b, double tokens_b);
  double tokens_per_word() const { return tokens_per_word_; }

 private:
  std::mt19937_64 random_;
  double tokens_per_word_ = 1, overhead_ = 0;
};

}  // namespace troupe::cluster::bench
