// LinearFit: a time as a sum of inputs, each times a fitted cost. A Kalman filter over measured times: what a measurement does not contain
// it says nothing about, so an hour of small steps does not wear away what a large one costs. The prior counts until something is measured.
// Plain value; one thread at a time. Invariant: every cost is >= 0, so time never falls with a larger input.
// Source: R. E. Kalman, "A new approach to linear filtering and prediction problems", 1960, with the state as a random walk.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace troupe::schedule {

template <std::size_t kTerms>
class LinearFit {
 public:
  using Vector = std::array<double, kTerms>;

  /// `prior`: us a unit of each input, each > 0.
  explicit LinearFit(const Vector& prior) : prior_(prior), costs_(prior) {
    for (std::size_t i = 0; i < kTerms; ++i) covariance_[i][i] = prior_[i] * prior_[i];
  }

  const Vector& costs() const { return costs_; }

  double predict(const Vector& x) const {
    double sum = 0;
    for (std::size_t i = 0; i < kTerms; ++i) sum += costs_[i] * x[i];
    return sum;
  }

  /// Of a prediction, us squared: how little is known of these inputs.
  double variance(const Vector& x) const {
    double sum = 0;
    for (std::size_t i = 0; i < kTerms; ++i)
      for (std::size_t j = 0; j < kTerms; ++j) sum += x[i] * covariance_[i][j] * x[j];
    return sum;
  }

  static constexpr double kNoise = 0.05;  // of a measured time, unless told otherwise

  void correct(const Vector& x, double measured_us, double noise = kNoise) {
    Vector gain{};  // covariance times x, until divided by the variance
    const double predicted_us = predict(x);
    double weights = 0;
    for (std::size_t i = 0; i < kTerms; ++i) weights += weight(x, i);
    for (std::size_t i = 0; i < kTerms && weights > 0; ++i) {
      // What makes up little of the step cannot be seen to have changed.
      const double drift = (kDrift * costs_[i] + kPriorDrift * prior_[i]) * weight(x, i) / weights;
      covariance_[i][i] = std::min(covariance_[i][i] + drift * drift, prior_[i] * prior_[i]);  // never less sure than at the start
    }
    // Of the predicted time: noise of the measured one would give the lucky steps more weight.
    double variance = kNoiseUs * kNoiseUs + noise * noise * predicted_us * predicted_us;
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) gain[i] += covariance_[i][j] * x[j];
      variance += gain[i] * x[i];
    }
    const double bound = kOutlier * std::sqrt(variance);
    const double error = std::clamp(measured_us - predicted_us, -bound, bound);
    for (std::size_t i = 0; i < kTerms; ++i) {
      costs_[i] = std::max(costs_[i] + gain[i] / variance * error, 0.0);
      for (std::size_t j = 0; j < kTerms; ++j) covariance_[i][j] -= gain[i] * gain[j] / variance;
    }
  }

 private:
  /// Of an input in the step's time; not zero where its cost has become it.
  double weight(const Vector& x, std::size_t i) const { return (costs_[i] + kPriorDrift * prior_[i]) * x[i]; }

  static constexpr double kDrift = 0.08, kPriorDrift = 0.001;  // of a cost, and of its prior, a step: how fast a machine may change
  static constexpr double kNoiseUs = 100.0;                    // of a step's time, however short
  static constexpr double kOutlier = 4.0;                      // standard deviations; a step beyond is one that something held up

  Vector prior_, costs_;
  std::array<Vector, kTerms> covariance_{};  // of costs_
};

}  // namespace troupe::schedule
