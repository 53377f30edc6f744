// Draws, scores and the best few of a row of logits, without sorting the vocabulary. One sampler a thread; it owns scratch only.
// Order of candidates: logit descending, id ascending. Sums: chunks of 512, or in that order; the same bits on every level.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

#include <vector>

namespace troupe::kernels::cpu {

class Sampler {
 public:
  /// Temperature first, then top-k, top-p (Holtzman et al. 2020) and min-p (Nguyen et al. 2024) of what is left.
  /// Throws std::invalid_argument on a row without logits; non-finite logits give finite = false. Takes no memory that `reserve` and
  /// room for the best few in `result` have not taken before.
  void sample(const LogitKernels& kernels, const SampleRequest& request, SampleResult& result);
  /// Memory for a request like this one.
  void reserve(const SampleRequest& request);

 private:
  struct Candidate {
    float logit;
    std::uint32_t id;
  };
  class Ranking;

  void sort_candidates();
  std::uint32_t draw(const LogitKernels& kernels, const SampleRequest& request, float max);
  std::uint32_t draw_from_all(const SampleRequest& request, float total);
  std::uint32_t draw_from_best(const LogitKernels& kernels, const SampleRequest& request, float max, float total, float factor);

  std::vector<float> exponentials_, chunk_sums_;
  std::vector<std::uint32_t> ids_;
  std::vector<Candidate> candidates_, other_, heap_, kept_;  // collected by id, room to sort them, as a heap; chosen
  std::vector<float> kept_sums_;
};

}  // namespace troupe::kernels::cpu
