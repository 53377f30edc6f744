// See statistics.h.
#include "cluster/bench/statistics.h"

#include <algorithm>
#include <numeric>

namespace troupe::cluster::bench {
namespace {

double percentile_of_sorted(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const double place = static_cast<double>(sorted.size() - 1) * q / 100;
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - static_cast<double>(low));
}

}  // namespace

double percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return percentile_of_sorted(values, q);
}

double median(std::vector<double> values) { return percentile(std::move(values), 50); }

Rates rates_of(double amount, const std::vector<double>& seconds) {
  std::vector<double> rates;
  for (const double time : seconds)
    if (time > 0) rates.push_back(amount / time);
  if (rates.empty()) return {};
  const auto [worst, best] = std::minmax_element(rates.begin(), rates.end());
  return {median(rates), *best, *worst, rates.size()};
}

Latency latency_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const auto ms = [&](double q) { return percentile_of_sorted(seconds, q) * 1e3; };
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {ms(50), ms(90), ms(99), sum * 1e3 / static_cast<double>(seconds.size()), seconds.back() * 1e3, seconds.size()};
}

}  // namespace troupe::cluster::bench
