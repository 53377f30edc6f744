#include "kernels/cpu/sampling.h"

#include "kernels/fixed_math.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

namespace troupe::kernels::cpu {
namespace {

/// 2 to the power -96 is nothing beside 1: a first threshold that keeps few candidates, then wider ones.
constexpr float kReaches[] = {4, 8, 16, 32, 96};
constexpr float kSmallestTemperature = 1e-6F;
constexpr std::size_t kFewTaken = 64;  // from then on the rest of a collection is sorted: a heap of many costs a miss a level
/// The next float above that of padding and banned ids.
constexpr float kAboveNever = std::bit_cast<float>(std::bit_cast<std::uint32_t>(kNever) - 1);

/// Whether a draw looks at candidates from the best down.
bool needs_order(const SampleRequest& r) { return r.top_k > 0 || r.top_p < 1.0F || r.min_p > 0.0F; }

}  // namespace

/// Best first: logit descending, id ascending. By counting digits from the lowest (LSD radix sort), which keeps the order of ids.
void Sampler::sort_candidates() {
  constexpr unsigned kDigits = 3, kBits = 11, kValues = 1U << kBits;
  const auto key = [](const Candidate& c) {  // ascending keys are descending logits; -0 becomes 0
    const auto bits = std::bit_cast<std::uint32_t>(c.logit + 0.0F);
    return bits & 0x80000000U ? bits : ~bits & 0x7fffffffU;
  };
  std::uint32_t counts[kDigits][kValues] = {};
  for (const Candidate& c : candidates_)
    for (unsigned d = 0; d < kDigits; ++d) ++counts[d][key(c) >> d * kBits & (kValues - 1)];
  other_.resize(candidates_.size());
  for (unsigned d = 0; d < kDigits; ++d) {
    std::uint32_t next = 0;
    for (std::uint32_t& count : counts[d]) next += std::exchange(count, next);
    for (const Candidate& c : candidates_) other_[counts[d][key(c) >> d * kBits & (kValues - 1)]++] = c;
    candidates_.swap(other_);
  }
}

/// Hands out candidates, best first. Collects only those near the maximum, and more when they run out: since a collection is always
/// a beginning of the whole order, its reach does not show in the result. The first few come from a heap, then all are sorted.
class Sampler::Ranking {
 public:
  /// `factor`: log2(e) / temperature; reaches count in powers of two of the probability.
  Ranking(Sampler& sampler, const LogitKernels& kernels, const SampleRequest& request, float max, float factor)
      : sampler_(sampler), kernels_(kernels), request_(request), max_(max), factor_(factor) {
    sampler_.candidates_.clear();
  }

  /// False when no candidate is left.
  bool next(Candidate& best) {
    while (taken_ == sampler_.candidates_.size())
      if (!widen()) return false;
    if (taken_ == kFewTaken && !sorted_) sort();
    if (sorted_) {
      best = sampler_.candidates_[taken_++];
      return true;
    }
    std::pop_heap(sampler_.heap_.begin(), sampler_.heap_.end(), worse);
    best = sampler_.heap_.back();
    sampler_.heap_.pop_back();
    ++taken_;
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
    sampler_.candidates_.clear();
    for (int i = 0; i < count; ++i) {
      const float logit = request_.logits[ids[static_cast<std::size_t>(i)]];
      if (logit < collected_) sampler_.candidates_.push_back({logit, ids[static_cast<std::size_t>(i)]});
    }
    taken_ = 0;
    sorted_ = false;
    if (collected_ == std::numeric_limits<float>::infinity()) {
      sampler_.heap_ = sampler_.candidates_;
      std::make_heap(sampler_.heap_.begin(), sampler_.heap_.end(), worse);
    } else {
      sort();  // many are wanted
    }
    collected_ = threshold;
    return true;
  }
  void sort() {
    sampler_.sort_candidates();
    sorted_ = true;
  }

  Sampler& sampler_;
  const LogitKernels& kernels_;
  const SampleRequest& request_;
  float max_, factor_;
  float collected_ = std::numeric_limits<float>::infinity();  // all candidates at or above it have been handed out or collected
  std::size_t taken_ = 0;                                     // of this collection
  std::size_t step_ = 0;
  bool sorted_ = false;  // else the heap holds those of this collection that are left
  bool all_ = false;
};

void Sampler::reserve(const SampleRequest& request) {
  const bool draws = request.score == 0xffffffff && request.temperature > 0;
  if (!draws && !request.want_logprob && request.top_logprobs == 0 && request.score == 0xffffffff) return;
  exponentials_.reserve(request.width);
  chunk_sums_.reserve(request.width / kSumChunk + 1);
  if (request.top_logprobs == 0 && (!draws || !needs_order(request))) return;
  ids_.reserve(request.width + 16);
  for (std::vector<Candidate>* all : {&candidates_, &other_, &heap_, &kept_}) all->reserve(request.width);
  kept_sums_.reserve(request.width);
}

void Sampler::sample(const LogitKernels& kernels, const SampleRequest& request, SampleResult& result) {
  if (request.width == 0 || request.logits == nullptr) throw std::invalid_argument("sample: no logits");
  const int n = static_cast<int>(request.width);
  result.token = 0;
  result.logprob = 0;
  result.top_ids.clear();
  result.top_logprobs.clear();
  const float max = kernels.scan(request.logits, n, &result.finite);
  if (!result.finite) return;
  const bool scoring = request.score != 0xffffffff;
  if (scoring && request.score >= request.width) throw std::invalid_argument("sample: the id to score is not in the vocabulary");
  result.token = scoring ? request.score : draw(kernels, request, max);
  if (!scoring && !request.want_logprob && request.top_logprobs == 0) return;

  exponentials_.resize(request.width);
  chunk_sums_.resize(request.width / kSumChunk + 1);
  const float total = kernels.exp_sums(request.logits, n, max, kLog2E, exponentials_.data(), chunk_sums_.data());
  const double log_total = fixed_log(total);
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - static_cast<double>(max) - log_total); };
  result.logprob = logprob(request.logits[result.token]);
  Ranking ranking(*this, kernels, request, max, kLog2E);
  Candidate candidate{};
  for (std::uint32_t i = 0; i < request.top_logprobs && ranking.next(candidate); ++i) {
    result.top_ids.push_back(candidate.id);
    result.top_logprobs.push_back(logprob(candidate.logit));
  }
}

std::uint32_t Sampler::draw(const LogitKernels& kernels, const SampleRequest& request, float max) {
  const int n = static_cast<int>(request.width);
  if (request.temperature < kSmallestTemperature || request.top_k == 1)
    return static_cast<std::uint32_t>(std::min(kernels.find(request.logits, n, max), n - 1));
  const float factor = kLog2E / request.temperature;
  exponentials_.resize(request.width);
  chunk_sums_.resize(request.width / kSumChunk + 1);
  const float total = kernels.exp_sums(request.logits, n, max, factor, exponentials_.data(), chunk_sums_.data());
  if (needs_order(request)) return draw_from_best(kernels, request, max, total, factor);
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
