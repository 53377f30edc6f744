// See speed_suites.h.
#include "cluster/bench/speed_suites.h"

#include <algorithm>

namespace troupe::cluster::bench {
namespace {

/// Useful operations of a prompt: products (the head for its last row only) and causal attention.
double prefill_operations(const model::ModelConfig& c, double tokens) {
  const auto d = [](std::size_t n) { return static_cast<double>(n); };
  const double q = d(c.q_heads * c.head_dim), kv = d(c.kv_heads * c.head_dim), hidden = d(c.hidden);
  const double layer = hidden * (q + 2 * kv) + q * hidden + 3 * hidden * d(c.ffn);
  const double pairs = tokens * (tokens + 1) / 2;
  return d(c.layers) * (2 * layer * tokens + 4 * q * pairs) + 2 * hidden * d(c.vocabulary);
}

}  // namespace

double weight_bytes_of_step(const MeasuredEngine& engine) {
  const model::ModelConfig& c = engine.config();
  const double all = static_cast<double>(engine.facts().weight_bytes);
  if (c.tied_embeddings) return all;
  // An embedding matrix of its own is only looked up. Its bytes are not told; by its share of the weights.
  const auto d = [](std::size_t n) { return static_cast<double>(n); };
  const double table = d(c.vocabulary * c.hidden), q = d(c.q_heads * c.head_dim), kv = d(c.kv_heads * c.head_dim);
  const double layers = d(c.layers) * d(c.hidden) * (2 * q + 2 * kv + 3 * d(c.ffn));
  return all * (layers + table) / (layers + 2 * table);
}

double kv_bytes_of_position(const MeasuredEngine& engine) {
  const exec::ShardFacts& facts = engine.facts();
  return static_cast<double>(facts.kv_bytes) / (static_cast<double>(facts.device_blocks) * kBlockTokens);
}

PrefillSuite::PrefillSuite(EngineRuns& runs, std::vector<std::uint32_t> tokens, std::uint32_t repetitions)
    : runs_(runs), tokens_(std::move(tokens)), repetitions_(repetitions) {}

std::string PrefillSuite::misfit() const {
  const std::string why = runs_.misfit(1, *std::max_element(tokens_.begin(), tokens_.end()));
  return why.empty() ? "" : "--prefill-tokens: " + why;
}

std::vector<Measurement> PrefillSuite::measurements() {
  std::vector<Measurement> out;
  for (const std::uint32_t tokens : tokens_)
    out.push_back({"prefill of " + std::to_string(tokens) + " tokens", repetitions_,
                   [this, tokens] {
                     const auto seconds = runs_.prefill(tokens);
                     if (seconds) seconds_[tokens].push_back(*seconds);
                     return seconds.has_value();
                   },
                   [this, tokens] { runs_.prefill(tokens); }});  // touches its memory for the first time
  return out;
}

void PrefillSuite::report(Report& report) const {
  for (const auto& [tokens, seconds] : seconds_) {
    PrefillFigure figure{tokens, rates_of(tokens, seconds), 0};
    figure.gflops = prefill_operations(runs_.engine().config(), tokens) / tokens * figure.tokens_per_second.median * 1e-9;
    report.prefill.push_back(figure);
  }
}

DecodeSuite::DecodeSuite(EngineRuns& runs, std::vector<std::uint32_t> batches, std::vector<std::uint32_t> contexts, std::uint32_t steps,
                         std::uint32_t repetitions)
    : runs_(runs), batches_(std::move(batches)), contexts_(std::move(contexts)), steps_(steps), repetitions_(repetitions) {}

std::string DecodeSuite::misfit() const {
  const std::uint32_t positions = *std::max_element(contexts_.begin(), contexts_.end()) + steps_;
  const std::string why = runs_.misfit(*std::max_element(batches_.begin(), batches_.end()), positions);
  return why.empty() ? "" : "--batch, --context-tokens and --decode-steps: " + why;
}

std::vector<Measurement> DecodeSuite::measurements() {
  std::vector<Measurement> out;
  for (const std::uint32_t context : contexts_)
    for (const std::uint32_t batch : batches_)
      out.push_back({"decode of " + std::to_string(batch) + " at " + std::to_string(context) + " tokens", repetitions_,
                     [this, context, batch] {
                       const auto seconds = runs_.decode(batch, context, steps_);
                       if (seconds) seconds_[{context, batch}].push_back(*seconds);
                       return seconds.has_value();
                     },
                     [this, context, batch] { runs_.decode(batch, context, 1); }});
  return out;
}

void DecodeSuite::report(Report& report) const {
  for (const auto& [key, seconds] : seconds_) {
    const auto [context, batch] = key;
    DecodeFigure figure{batch, context, rates_of(static_cast<double>(batch) * steps_, seconds), median(seconds) * 1e3 / steps_, 0};
    const double kv = kv_bytes_of_position(runs_.engine()) * batch * (context + 0.5 * (steps_ + 1));
    figure.gigabytes_per_second = (weight_bytes_of_step(runs_.engine()) + kv) / (figure.step_ms * 1e-3) * 1e-9;
    report.decode.push_back(figure);
  }
}

}  // namespace troupe::cluster::bench
