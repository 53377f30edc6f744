#include "runtime/exec/drawn_tokens.h"

#include <utility>

namespace troupe::exec {

void DrawnTokens::expect(const plan::ForwardPlan& plan, SequenceTable& sequences) {
  Step expected{plan.step.value, {}};
  for (const plan::Sample& sample : plan.samples) {
    if (sample.token != plan::kDraw) continue;
    expected.slots.push_back(sample.sequence);
    sequences.at(sample.sequence).drawn_at = expected.number;
  }
  if (!expected.slots.empty()) steps_.push_back(std::move(expected));
}

void DrawnTokens::receive_until(std::uint64_t step, collective::Collective& collective, SequenceTable& sequences) {
  while (!steps_.empty() && steps_.front().number <= step) {
    const Step& drawn = steps_.front();
    tokens_.resize(drawn.slots.size());
    collective.receive_tokens(tokens_);
    for (std::size_t i = 0; i < tokens_.size(); ++i) sequences.note_drawn(drawn.slots[i], drawn.number, tokens_[i]);
    steps_.pop_front();
  }
}

void drawn(const plan::ForwardPlan& plan, const plan::ForwardResult& result, std::vector<std::uint32_t>& tokens) {
  tokens.clear();
  for (std::size_t i = 0; i < plan.samples.size(); ++i)
    if (plan.samples[i].token == plan::kDraw) tokens.push_back(result.tokens[i]);
}

}  // namespace troupe::exec
