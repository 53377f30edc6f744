// See load_summary.h.
#include "cluster/bench/load_summary.h"

#include <utility>

namespace troupe::cluster::bench {

void append_gaps(std::vector<double>& to, const CallResult& result, double since, double until) {
  for (std::size_t i = 1; i < result.stamps.size(); ++i)
    if (result.stamps[i] > since && result.stamps[i - 1] < until) to.push_back(result.stamps[i] - result.stamps[i - 1]);
}

HttpFigure load_summary(const std::vector<CallResult>& results, double wall) {
  HttpFigure figure;
  figure.requests = static_cast<std::uint32_t>(results.size());
  figure.wall_seconds = wall;
  std::vector<double> first, between, per_token, whole;
  double good = 0, prompt = 0, cached = 0, output = 0;
  for (const CallResult& result : results) {
    if (!result.good()) {
      ++figure.errors;
      if (figure.first_error.empty()) figure.first_error = result.error;
      continue;
    }
    ++good;
    prompt += static_cast<double>(result.prompt_tokens);
    cached += static_cast<double>(result.cached_tokens);
    figure.tiers.device += result.tiers.device;
    figure.tiers.host += result.tiers.host;
    figure.tiers.disk += result.tiers.disk;
    output += static_cast<double>(result.output_tokens);
    first.push_back(result.first_token_seconds());
    append_gaps(between, result);
    whole.push_back(result.end - result.start);
    if (result.stamps.size() >= 2 && result.output_tokens >= 2)
      per_token.push_back((result.stamps.back() - result.stamps.front()) / static_cast<double>(result.output_tokens - 1));
  }
  if (wall > 0) {
    figure.output_tokens_per_second = output / wall;
    figure.prompt_tokens_per_second = prompt / wall;
  }
  if (good > 0) {
    figure.prompt_tokens = prompt / good;
    figure.cached_tokens = cached / good;
    figure.output_tokens = output / good;
    for (double* tier : {&figure.tiers.device, &figure.tiers.host, &figure.tiers.disk}) *tier /= good;
  }
  figure.first_token = latency_of(std::move(first));
  figure.between_tokens = latency_of(std::move(between));
  figure.per_token = latency_of(std::move(per_token));
  figure.whole = latency_of(std::move(whole));
  return figure;
}

}  // namespace troupe::cluster::bench
