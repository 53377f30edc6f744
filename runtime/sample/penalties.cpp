#include "runtime/sample/penalties.h"

namespace troupe::sample {

void apply_penalties(const Penalties& penalties, const TokenCounts& counts, std::span<float> logits) {
  if (penalties.need_history()) {
    for (const auto& [token, outputs] : counts.counts()) {
      if (token >= logits.size()) continue;
      float& logit = logits[token];
      if (penalties.repetition != 1.0F) logit = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
      if (outputs == 0) continue;
      const float frequency = static_cast<float>(outputs) * penalties.frequency;
      logit -= frequency;
      logit -= penalties.presence;
    }
  }
  for (std::size_t i = 0; i < penalties.bias_tokens.size(); ++i)
    if (penalties.bias_tokens[i] < logits.size()) logits[penalties.bias_tokens[i]] += penalties.biases[i];
}

}  // namespace troupe::sample
