#include "runtime/exec/sampling_step.h"

#include "runtime/sample/philox.h"

#include <algorithm>
#include <numeric>

namespace troupe::exec {
namespace {

// Rows of logits held at once: 64 rows of a vocabulary of 49,152 are 12 MiB; scores of a long prompt come in many such batches.
constexpr std::size_t kLogitsRows = 64;

bool draws(const plan::Sample& sample) { return sample.token == plan::kDraw; }

void append(const plan::Sample& sample, const kernels::SampleResult& got, TokenId token, bool any_logprobs, plan::ForwardResult& result) {
  result.tokens.push_back(draws(sample) ? token : sample.token);
  if (any_logprobs) result.logprobs.push_back(sample.top_logprobs == plan::kNoLogprobs ? 0.0F : got.logprob);
  if (sample.top_logprobs == plan::kNoLogprobs) return;
  // Fewer than asked for only where the row failed or the vocabulary is tiny: the lists stay rectangular for the reader.
  for (std::size_t i = 0; i < sample.top_logprobs; ++i) {
    result.top_ids.push_back(i < got.top_ids.size() ? got.top_ids[i] : 0);
    result.top_logprobs.push_back(i < got.top_logprobs.size() ? got.top_logprobs[i] : -1e30F);
  }
}

}  // namespace

SamplingStep::SamplingStep(model::Model& model, kernels::Backend& backend, const base::ShardPlace& place)
    : model_(model),
      backend_(backend),
      place_(place),
      slice_(model.slice().vocabulary.count),
      logits_(model.config().vocabulary),
      adjusted_(model.config().vocabulary) {
  if (!model.slice().has_head || model.slice().vocabulary.count == model.config().vocabulary) return;
  for (std::uint16_t tensor_rank = 0; tensor_rank < place.shape.tensor_ranks; ++tensor_rank) {
    model::LoadPart part;
    part.place = {place.shape, static_cast<std::uint16_t>(place.stage() * place.shape.tensor_ranks + tensor_rank)};
    widths_.push_back(model::slice_model(model.config(), part).value().vocabulary.count);
  }
}

void SamplingStep::run(std::span<const plan::Sample> samples, std::span<const std::uint32_t> positions, kernels::Rows wanted,
                       SequenceTable& sequences, plan::ForwardResult& result) {
  if (!place_.samples() && !head_is_cut()) return;
  order_.resize(samples.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return samples[a].row < samples[b].row; });
  results_.assign(samples.size(), {});

  // One row of logits for each distinct row, however many samples name it.
  std::size_t row = 0;
  for (std::size_t first = 0; first < order_.size();) {
    std::size_t last = first, rows = 0;
    for (; last < order_.size(); ++last) {
      const bool new_row = last == first || samples[order_[last]].row != samples[order_[last - 1]].row;
      if (new_row && rows == kLogitsRows) break;
      rows += new_row;
    }
    const kernels::Rows logits = logits_of(wanted.slice(row, rows));
    if (place_.samples()) sample_batch(std::span(order_).subspan(first, last - first), samples, positions, logits, sequences);
    first = last;
    row += rows;
  }
  if (place_.samples()) conclude(samples, sequences, result);
}

/// Whole rows of logits, on the sampling rank.
kernels::Rows SamplingStep::logits_of(kernels::Rows wanted) {
  const kernels::Rows logits = logits_.rows(wanted.count);
  const kernels::Rows mine = head_is_cut() ? slice_.rows(wanted.count) : logits;
  model_.logits(wanted, mine);
  backend_.synchronize();
  if (head_is_cut()) collective_->gather_slices(mine, widths_, logits);
  return logits;
}

void SamplingStep::sample_batch(std::span<const std::size_t> order, std::span<const plan::Sample> samples,
                                std::span<const std::uint32_t> positions, kernels::Rows logits, SequenceTable& sequences) {
  std::size_t adjusted_count = 0;
  for (const std::size_t index : order) adjusted_count += draws(samples[index]) && sequences.at(samples[index].sequence).penalties.any();
  const kernels::Rows adjusted = adjusted_count > 0 ? adjusted_.rows(adjusted_count) : kernels::Rows{};

  requests_.clear();
  std::size_t row = 0, next_adjusted = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const plan::Sample& sample = samples[order[i]];
    if (i > 0 && sample.row != samples[order[i - 1]].row) ++row;
    const Sequence& sequence = sequences.at(sample.sequence);
    float* source = logits.row(row);
    if (draws(sample) && sequence.penalties.any()) {
      float* copy = adjusted.row(next_adjusted++);
      std::copy_n(source, logits.width, copy);
      sample::apply_penalties(sequence.penalties, sequence.counts, {copy, logits.width});
      source = copy;
    }
    requests_.push_back(request(sample, positions[sample.row], sequence, source));
  }
  batch_results_.assign(requests_.size(), {});
  backend_.sample(requests_, batch_results_);
  backend_.synchronize();
  for (std::size_t i = 0; i < order.size(); ++i) results_[order[i]] = std::move(batch_results_[i]);
}

void SamplingStep::conclude(std::span<const plan::Sample> samples, SequenceTable& sequences, plan::ForwardResult& result) const {
  const bool any_logprobs =
      std::any_of(samples.begin(), samples.end(), [](const plan::Sample& s) { return s.top_logprobs != plan::kNoLogprobs; });
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool finite = results_[i].finite;
    if (!finite) result.failed_samples.push_back(static_cast<std::uint32_t>(i));
    const TokenId token = finite ? results_[i].token : 0;
    append(samples[i], results_[i], token, any_logprobs, result);
    if (!draws(samples[i])) continue;
    Sequence& sequence = sequences.at(samples[i].sequence);
    sequence.last = token;
    if (sequence.penalties.need_history()) sequence.counts.add_output(token);
  }
}

kernels::SampleRequest SamplingStep::request(const plan::Sample& sample, std::uint32_t position, const Sequence& sequence,
                                             const float* logits) const {
  kernels::SampleRequest request;
  request.logits = logits;
  request.width = model_.config().vocabulary;
  if (draws(sample)) {
    request.temperature = sequence.sampling.temperature;
    request.top_p = sequence.sampling.top_p;
    request.min_p = sequence.sampling.min_p;
    request.top_k = sequence.sampling.top_k;
    if (request.temperature > 0) request.uniform = sample::uniform(sequence.sampling.seed, sequence.choice, position + 1);
  } else {
    request.score = sample.token;
  }
  request.want_logprob = sample.top_logprobs != plan::kNoLogprobs;
  request.top_logprobs = request.want_logprob ? sample.top_logprobs : 0;
  return request;
}

}  // namespace troupe::exec
