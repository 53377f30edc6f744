// See prompt_maker.h.
#include "cluster/bench/prompt_maker.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace troupe::cluster::bench {
namespace {

constexpr const char* kWords[] = {
    "river",   "stone",  "window", "garden", "music",  "paper",   "silver", "market",  "bridge", "winter",  "summer", "engine", "letter",
    "picture", "island", "forest", "planet", "doctor", "teacher", "camera", "kitchen", "the",    "of",      "and",    "to",     "in",
    "is",      "that",   "for",    "with",   "on",     "are",     "this",   "from",    "they",   "have",    "will",   "when",   "walk",
    "carry",   "build",  "open",   "close",  "watch",  "learn",   "write",  "speak",   "follow", "between", "under",  "small",  "large",
    "quiet",   "early",  "bright", "heavy",  "simple", "green",   "second", "public",  "common"};

}  // namespace

std::string PromptMaker::words(std::uint32_t count) {
  std::string text;
  for (std::uint32_t i = 0; i < std::max(1U, count); ++i) {
    if (i > 0) text += ' ';
    text += kWords[random_() % std::size(kWords)];
  }
  return text;
}

std::string PromptMaker::text(std::uint32_t tokens) {
  return words(static_cast<std::uint32_t>(std::lround(std::max(1.0, (tokens - overhead_) / tokens_per_word_))));
}

void PromptMaker::calibrate(double words_a, double tokens_a, double words_b, double tokens_b) {
  if (words_a == words_b) return;
  tokens_per_word_ = std::max(0.25, (tokens_b - tokens_a) / (words_b - words_a));
  overhead_ = std::max(0.0, tokens_a - words_a * tokens_per_word_);
}

}  // namespace troupe::cluster::bench
