// SamplingStep: from the residual stream of a step to its tokens and log-probabilities: logits of the sampled rows, penalties,
// draws and scores. Owned by the Executor of the last stage; compute thread only.
// Invariant: what a sample yields depends on its row, its sequence, and the position of its token; never on the other samples.
#pragma once
#include "runtime/exec/sequence_table.h"
#include "runtime/model/model.h"
#include "runtime/model/row_buffer.h"

#include <span>

namespace troupe::exec {

class SamplingStep {
 public:
  SamplingStep(model::Model& model, kernels::Backend& backend);
  /// positions[row] is the absolute position of a row; `wanted` has the residual stream of rows with a sample, ascending. Fills tokens,
  /// log-probabilities and failed_samples of `result`, and updates the last token and the counts of each sequence that drew. A failed draw
  /// leaves token 0. Log-probabilities: natural, after penalties and bias, before temperature; those of scores without penalties and bias.
  void run(std::span<const plan::Sample> samples, std::span<const std::uint32_t> positions, kernels::Rows wanted, SequenceTable& sequences,
           plan::ForwardResult& result);

 private:
  void run_batch(std::span<const std::size_t> order, std::span<const plan::Sample> samples, std::span<const std::uint32_t> positions,
                 kernels::Rows wanted, SequenceTable& sequences);
  kernels::SampleRequest request(const plan::Sample& sample, std::uint32_t position, const Sequence& sequence, const float* logits) const;

  model::Model& model_;
  kernels::Backend& backend_;
  model::RowBuffer logits_, adjusted_;
  std::vector<std::size_t> order_;  // samples by row
  std::vector<kernels::SampleRequest> requests_;
  std::vector<kernels::SampleResult> batch_results_, results_;
};

}  // namespace troupe::exec
