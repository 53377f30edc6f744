#include "kernels/cpu/sampling.h"

#include "kernels/fixed_math.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <stdexcept>

namespace troupe::kernels::cpu {
namespace {

/// 2 to the power -96 is nothing beside 1: a first threshold that keeps few candidates, then wider ones.
constexpr float kReaches[] = {4, 8, 16, 32, 96};
constexpr float kSmallestTemperature = 1e-6F;
/// The next float above that of padding and banned ids.
constexpr float kAboveNever = std::bit_cast<float>(std::bit_cast<std::uint32_t>(kNever) - 1);

}  // namespace

/// Hands out candidates, best first. Collects only those near the maximum, and more when they run out: since a collection is always
/// a beginning of the whole order, its reach does not show in the result.
class Sampler::Ranking {
 public:
  /// `factor`: log2(e) / temperature; reaches count in powers of two of the probability.
  Ranking(Sampler& sampler, const LogitKernels& kernels, const SampleRequest& request, float max, float factor)
      : sampler_(sampler), kernels_(kernels), request_(request), max_(max), factor_(factor) {}

  /// False when no candidate is left.
  bool next(Candidate& best) {
    while (sampler_.heap_.empty())
      if (!widen()) return false;
    std::pop_heap(sampler_.heap_.begin(), sampler_.heap_.end(), worse);
    best = sampler_.heap_.back();
    sampler_.heap_.pop_back();
    return true;
  }

 private:
  static bool worse(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit < b.logit : a.id > b.id; }

  bool widen() {
    if (all_) return false;
    float threshold = std::numeric_limits<float>::lowest();
    if (step_ < std::size(kReaches)) threshold = max_ - kReaches[step_++] / factor_;
    if (!(threshold > kNever)) {  // the last collection: all but padding and banned ids
      all_ = true;
      threshold = kAboveNever;
    }
    std::vector<std::uint32_t>& ids = sampler_.ids_;
    ids.resize(request_.width + 16);
    const int count = kernels_.collect(request_.logits, static_cast<int>(request_.width), threshold, ids.data());
    for (int i = 0; i < count; ++i) {
      const float logit = request_.logits[ids[static_cast<std::size_t>(i)]];
      if (logit < collected_) sampler_.heap_.push_back({logit, ids[static_cast<std::size_t>(i)]});
    }
    std::make_heap(sampler_.heap_.begin(), sampler_.heap_.end(), worse);
    collected_ = threshold;
    return true;
  }

  Sampler& sampler_;
  const LogitKernels& kernels_;
  const SampleRequest& request_;
  float max_, factor_;
  float collected_ = std::numeric_limits<float>::infinity();  // all candidates at or above it have been in the heap
  std::size_t step_ = 0;
  bool all_ = false;
};

SampleResult Sampler::sample(const LogitKernels& kernels, const SampleRequest& request) {
  if (request.width == 0 || request.logits == nullptr) throw std::invalid_argument("sample: no logits");
  const int n = static_cast<int>(request.width);
  SampleResult result;
  const float max = kernels.scan(request.logits, n, &result.finite);
  if (!result.finite) return result;
  const bool scoring = request.score != 0xffffffff;
  if (scoring && request.score >= request.width) throw std::invalid_argument("sample: the id to score is not in the vocabulary");
  result.token = scoring ? request.score : draw(kernels, request, max);
  if (!scoring && !request.want_logprob && request.top_logprobs == 0) return result;

  exponentials_.resize(request.width);
  chunk_sums_.resize(request.width / kSumChunk + 1);
  const float total = kernels.exp_sums(request.logits, n, max, kLog2E, exponentials_.data(), chunk_sums_.data());
  const double log_total = fixed_log(total);
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - static_cast<double>(max) - log_total); };
  result.logprob = logprob(request.logits[result.token]);
  heap_.clear();
  Ranking ranking(*this, kernels, request, max, kLog2E);
  Candidate candidate{};
  for (std::uint32_t i = 0; i < request.top_logprobs && ranking.next(candidate); ++i) {
    result.top_ids.push_back(candidate.id);
    result.top_logprobs.push_back(logprob(candidate.logit));
  }
  return result;
}

std::uint32_t Sampler::draw(const LogitKernels& kernels, const SampleRequest& request, float max) {
  const int n = static_cast<int>(request.width);
  if (request.temperature < kSmallestTemperature || request.top_k == 1)
    return static_cast<std::uint32_t>(std::min(kernels.find(request.logits, n, max), n - 1));
  const float factor = kLog2E / request.temperature;
  exponentials_.resize(request.width);
  chunk_sums_.resize(request.width / kSumChunk + 1);
  const float total = kernels.exp_sums(request.logits, n, max, factor, exponentials_.data(), chunk_sums_.data());
  if (request.top_k > 0 || request.top_p < 1.0F || request.min_p > 0.0F) return draw_from_best(kernels, request, max, total, factor);
  return draw_from_all(request, total);
}

/// Inverse of the cumulative sum at uniform * total: first by chunk, then inside it; the chunk's last if rounding overshoots.
std::uint32_t Sampler::draw_from_all(const SampleRequest& request, float total) {
  const float goal = request.uniform * total;
  const std::size_t chunks = (request.width + kSumChunk - 1) / kSumChunk;
  float run = 0;
  std::size_t chunk = 0;
  while (chunk + 1 < chunks && run + chunk_sums_[chunk] <= goal) run += chunk_sums_[chunk++];
  const std::size_t begin = chunk * kSumChunk, end = std::min(request.width, begin + kSumChunk);
  std::size_t last = request.width;
  for (std::size_t i = begin; i < end; ++i) {
    run += exponentials_[i];
    if (request.logits[i] <= kNever) continue;
    last = i;
    if (run > goal) break;
  }
  // A chunk of padding alone is reached only if rounding overshoots: then the last id before it.
  for (std::size_t i = begin; last == request.width && i-- > 0;)
    if (request.logits[i] > kNever) last = i;
  return static_cast<std::uint32_t>(last == request.width ? 0 : last);
}

std::uint32_t Sampler::draw_from_best(const LogitKernels& kernels, const SampleRequest& request, float max, float total, float factor) {
  heap_.clear();
  kept_.clear();
  kept_sums_.clear();
  const std::size_t most = request.top_k > 0 ? request.top_k : request.width;
  // With top-k, the nucleus is a share of the k best; without, of all.
  const bool top_p_of_k = request.top_k > 0 && request.top_k < request.width;
  float sum = 0;
  Ranking ranking(*this, kernels, request, max, factor);
  for (Candidate c{}; kept_.size() < most;) {
    if (!top_p_of_k && request.top_p < 1.0F && !kept_.empty() && sum >= request.top_p * total) break;
    if (!ranking.next(c)) break;
    const float e = exponentials_[c.id];
    if (!top_p_of_k && !kept_.empty() && e < request.min_p) break;
    sum += e;
    kept_.push_back(c);
    kept_sums_.push_back(sum);
  }
  if (kept_.empty()) return 0;  // everything is banned
  std::size_t count = kept_.size();
  if (top_p_of_k && request.top_p < 1.0F)
    for (count = 1; count < kept_.size() && kept_sums_[count - 1] < request.top_p * sum;) ++count;
  while (count > 1 && exponentials_[kept_[count - 1].id] < request.min_p) --count;  // relative to the best, whose e is 1
  const float goal = request.uniform * kept_sums_[count - 1];
  std::size_t i = 0;
  while (i + 1 < count && kept_sums_[i] <= goal) ++i;
  return kept_[i].id;
}

}  // namespace troupe::kernels::cpu
