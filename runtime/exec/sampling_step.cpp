#include "runtime/exec/sampling_step.h"

#include "runtime/sample/philox.h"

#include <algorithm>
#include <numeric>

namespace troupe::exec {
namespace {

// Rows of logits held at once: 64 rows of a vocabulary of 49,152 are 12 MiB; scores of a long prompt come in many such batches.
constexpr std::size_t kLogitsRows = 64;

bool draws(const plan::Sample& sample) { return sample.token == plan::kDraw; }

void append(const plan::Sample& sample, const kernels::SampleResult& got, bool any_logprobs, plan::ForwardResult& result) {
  result.tokens.push_back(draws(sample) ? got.token : sample.token);
  if (any_logprobs) result.logprobs.push_back(sample.top_logprobs == plan::kNoLogprobs ? 0.0F : got.logprob);
  if (sample.top_logprobs == plan::kNoLogprobs) return;
  // Fewer than asked for only where the row failed or the vocabulary is tiny: the lists stay rectangular for the reader.
  for (std::size_t i = 0; i < sample.top_logprobs; ++i) {
    result.top_ids.push_back(i < got.top_ids.size() ? got.top_ids[i] : 0);
    result.top_logprobs.push_back(i < got.top_logprobs.size() ? got.top_logprobs[i] : -1e30F);
  }
}

}  // namespace

SamplingStep::SamplingStep(model::Model& model, kernels::Backend& backend)
    : model_(model), backend_(backend), logits_(model.config().vocabulary), adjusted_(model.config().vocabulary) {}

void SamplingStep::run(std::span<const plan::Sample> samples, std::span<const std::uint32_t> positions, kernels::Rows wanted,
                       SequenceTable& sequences, plan::ForwardResult& result) {
  order_.resize(samples.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return samples[a].row < samples[b].row; });
  results_.assign(samples.size(), {});

  for (std::size_t first = 0, first_row = 0; first < order_.size();) {
    std::size_t last = first, rows = 0;
    for (; last < order_.size(); ++last) {
      const bool new_row = last == first || samples[order_[last]].row != samples[order_[last - 1]].row;
      if (new_row && rows == kLogitsRows) break;
      rows += new_row;
    }
    run_batch(std::span(order_).subspan(first, last - first), samples, positions, wanted.slice(first_row, rows), sequences);
    first = last;
    first_row += rows;
  }

  const bool any_logprobs =
      std::any_of(samples.begin(), samples.end(), [](const plan::Sample& s) { return s.top_logprobs != plan::kNoLogprobs; });
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!results_[i].finite) {
      results_[i].token = 0;
      result.failed_samples.push_back(static_cast<std::uint32_t>(i));
    }
    append(samples[i], results_[i], any_logprobs, result);
    if (!draws(samples[i])) continue;
    Sequence& sequence = sequences.at(samples[i].sequence);
    sequence.last = results_[i].token;
    if (sequence.penalties.need_history()) sequence.counts.add_output(results_[i].token);
  }
}

void SamplingStep::run_batch(std::span<const std::size_t> order, std::span<const plan::Sample> samples,
                             std::span<const std::uint32_t> positions, kernels::Rows wanted, SequenceTable& sequences) {
  // One row of logits for each distinct row, however many samples name it.
  const kernels::Rows logits = logits_.rows(wanted.count);
  model_.logits(wanted, logits);
  backend_.synchronize();

  std::size_t adjusted_count = 0;
  for (const std::size_t index : order) adjusted_count += draws(samples[index]) && sequences.at(samples[index].sequence).penalties.any();
  const kernels::Rows adjusted = adjusted_count > 0 ? adjusted_.rows(adjusted_count) : kernels::Rows{};

  requests_.clear();
  std::size_t row = 0, next_adjusted = 0;
  std::uint32_t row_in_batch = samples[order.front()].row;
  for (const std::size_t index : order) {
    const plan::Sample& sample = samples[index];
    if (sample.row != row_in_batch) {
      row_in_batch = sample.row;
      ++row;
    }
    const Sequence& sequence = sequences.at(sample.sequence);
    float* source = logits.row(row);
    if (draws(sample) && sequence.penalties.any()) {
      float* copy = adjusted.row(next_adjusted++);
      std::copy_n(source, adjusted.width, copy);
      sample::apply_penalties(sequence.penalties, sequence.counts, {copy, adjusted.width});
      source = copy;
    }
    requests_.push_back(request(sample, positions[sample.row], sequence, source));
  }
  batch_results_.assign(requests_.size(), {});
  backend_.sample(requests_, batch_results_);
  backend_.synchronize();
  for (std::size_t i = 0; i < order.size(); ++i) results_[order[i]] = std::move(batch_results_[i]);
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
