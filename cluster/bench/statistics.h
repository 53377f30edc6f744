// Medians, spreads and percentiles of what was measured. Pure; any thread.
#pragma once
#include <cstddef>
#include <vector>

namespace troupe::cluster::bench {

/// 0 of nothing; the mean of the two in the middle of an even number.
double median(std::vector<double> values);
/// q in 0...100, interpolated between neighbours (as numpy's default); 0 of nothing.
double percentile(std::vector<double> values, double q);

/// Rates (tokens, operations, bytes ... a second) of the repetitions of one measurement.
struct Rates {
  double median = 0, best = 0, worst = 0;
  std::size_t count = 0;  // repetitions; 0: nothing was measured
  /// Best minus worst, in percent of the median: how much to trust the figure.
  double spread_percent() const { return median > 0 ? 100 * (best - worst) / median : 0; }
};
/// `amount` of things in each of the times.
Rates rates_of(double amount, const std::vector<double>& seconds);

/// Of latencies, in milliseconds.
struct Latency {
  double p50 = 0, p90 = 0, p99 = 0, mean = 0, max = 0;
  std::size_t count = 0;
};
Latency latency_of(std::vector<double> seconds);

}  // namespace troupe::cluster::bench
