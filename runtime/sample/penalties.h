// Penalties and logit bias: changes to a row of logits that depend on the tokens of one sequence. Pure but for the counts,
// which belong to a sequence on one rank; the compute thread only.
// Source of the formulas: repetition, Keskar et al. 2019, "CTRL", section 4.1; presence and frequency, OpenAI API reference.
#pragma once
#include "messages/ids.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace troupe::sample {

struct Penalties {
  float repetition = 1.0F;  // > 0; 1 = off; over prompt and output
  float presence = 0.0F;    // over output
  float frequency = 0.0F;   // over output
  std::vector<TokenId> bias_tokens;
  std::vector<float> biases;  // one an entry of bias_tokens

  bool need_history() const { return repetition != 1.0F || presence != 0.0F || frequency != 0.0F; }
  bool any() const { return need_history() || !bias_tokens.empty(); }
};

/// How often each token stands in a sequence.
class TokenCounts {
 public:
  void add_prompt(TokenId token) { counts_.try_emplace(token, 0); }
  void add_output(TokenId token) { ++counts_.try_emplace(token, 0).first->second; }
  /// (token, times in the output); 0 = in the prompt only.
  const std::unordered_map<TokenId, std::uint32_t>& counts() const { return counts_; }

 private:
  std::unordered_map<TokenId, std::uint32_t> counts_;
};

/// Changes `logits` (one a token of the vocabulary) in place: repetition, then frequency and presence, then bias. Tokens outside
/// are skipped. No order of tokens matters: each changes its own logit only.
void apply_penalties(const Penalties& penalties, const TokenCounts& counts, std::span<float> logits);

}  // namespace troupe::sample
