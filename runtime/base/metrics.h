// Counters, gauges and histograms behind one registry per process part, exposed as Prometheus text. Handed down, never global.
// Any thread; updates are lock-free (prometheus-cpp atomics).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::base {

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void increment(double by = 1) = 0;
  virtual void set_total(double value) = 0;  // mirrors a monotonic total kept elsewhere; never goes down
  virtual double value() const = 0;
};
/// Adds what came since `before`; a total that began anew adds nothing.
inline void count_up(Counter& counter, std::uint64_t before, std::uint64_t after) {
  if (after > before) counter.increment(static_cast<double>(after - before));
}
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
  virtual void add(double by) = 0;
  virtual double value() const = 0;
};
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};
using Labels = std::map<std::string, std::string>;

class Metrics {
 public:
  Metrics();
  ~Metrics();
  // The reference stays valid as long as the registry; the same name and labels give the same object.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help, std::vector<double> bounds, const Labels& labels = {});
  /// Of a counter or gauge without labels; 0 where there is none yet.
  double value(const std::string& name) const;
  std::string prometheus_text() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::base
