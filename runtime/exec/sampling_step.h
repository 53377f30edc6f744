// SamplingStep: from the residual stream of a step to its tokens and log-probabilities: logits of the sampled rows, penalties,
// draws and scores. Owned by the Executor of the last stage; compute thread only. Where the head is cut over the tensor ranks, all of them
// compute their columns, and the sampling rank gathers them.
// Invariant: what a sample yields depends on its row, its sequence, and the position of its token; never on the other samples.
#pragma once
#include "runtime/base/shard_place.h"
#include "runtime/collective/collective.h"
#include "runtime/exec/sequence_table.h"
#include "runtime/model/model.h"
#include "runtime/model/row_buffer.h"

#include <span>
#include <vector>

namespace troupe::exec {

class SamplingStep {
 public:
  SamplingStep(model::Model& model, kernels::Backend& backend, const base::ShardPlace& place);
  /// From now on; null with one rank.
  void use(collective::Collective* collective) { collective_ = collective; }
  /// `wanted` holds one row for each distinct row of the samples, in order. positions[row] is the absolute position of a row of the plan.
  /// Fills tokens, log-probabilities and failed_samples of `result`, and updates the last token and the counts of each sequence that drew;
  /// nothing of it on ranks that do not sample. A failed draw leaves token 0.
  /// Log-probabilities: natural, after penalties and bias, before temperature; those of scores without penalties and bias.
  void run(std::span<const plan::Sample> samples, std::span<const std::uint32_t> positions, kernels::Rows wanted, SequenceTable& sequences,
           plan::ForwardResult& result);

 private:
  kernels::Rows logits_of(kernels::Rows wanted);
  void sample_batch(std::span<const std::size_t> order, std::span<const plan::Sample> samples, std::span<const std::uint32_t> positions,
                    kernels::Rows logits, SequenceTable& sequences);
  kernels::SampleRequest request(const plan::Sample& sample, std::uint32_t position, const Sequence& sequence, const float* logits) const;
  void conclude(std::span<const plan::Sample> samples, SequenceTable& sequences, plan::ForwardResult& result) const;
  bool head_is_cut() const { return widths_.size() > 1; }

  model::Model& model_;
  kernels::Backend& backend_;
  const base::ShardPlace place_;
  collective::Collective* collective_ = nullptr;
  std::vector<std::size_t> widths_;  // columns of the logits of each tensor rank, where the head is cut
  model::RowBuffer slice_, logits_, adjusted_;
  std::vector<std::size_t> order_;  // samples by row
  std::vector<kernels::SampleRequest> requests_;
  std::vector<kernels::SampleResult> batch_results_, results_;
};

}  // namespace troupe::exec
