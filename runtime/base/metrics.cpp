#include "runtime/base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

namespace troupe::base {
namespace {
class PrometheusCounter final : public Counter {
 public:
  explicit PrometheusCounter(prometheus::Counter& counter) : counter_(counter) {}
  void increment(double by) override { counter_.Increment(by); }
  void set_total(double value) override {
    if (const double delta = value - counter_.Value(); delta > 0) counter_.Increment(delta);
  }
  double value() const override { return counter_.Value(); }

 private:
  prometheus::Counter& counter_;
};
class PrometheusGauge final : public Gauge {
 public:
  explicit PrometheusGauge(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void set(double value) override { gauge_.Set(value); }
  void add(double by) override { gauge_.Increment(by); }
  double value() const override { return gauge_.Value(); }

 private:
  prometheus::Gauge& gauge_;
};
class PrometheusHistogram final : public Histogram {
 public:
  explicit PrometheusHistogram(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};
template <class Interface>
using Table = std::map<std::pair<std::string, Labels>, std::unique_ptr<Interface>>;
}  // namespace

class Metrics::State {
 public:
  std::mutex mutex;
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
  Table<Counter> counters;
  Table<Gauge> gauges;
  Table<Histogram> histograms;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard guard(state_->mutex);
  auto& slot = state_->counters[{name, labels}];
  if (!slot)
    slot = std::make_unique<PrometheusCounter>(prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry).Add(labels));
  return *slot;
}
Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard guard(state_->mutex);
  auto& slot = state_->gauges[{name, labels}];
  if (!slot)
    slot = std::make_unique<PrometheusGauge>(prometheus::BuildGauge().Name(name).Help(help).Register(state_->registry).Add(labels));
  return *slot;
}
Histogram& Metrics::histogram(const std::string& name, const std::string& help, std::vector<double> bounds, const Labels& labels) {
  const std::lock_guard guard(state_->mutex);
  auto& slot = state_->histograms[{name, labels}];
  if (!slot)
    slot = std::make_unique<PrometheusHistogram>(
        prometheus::BuildHistogram().Name(name).Help(help).Register(state_->registry).Add(labels, std::move(bounds)));
  return *slot;
}
double Metrics::value(const std::string& name) const {
  const std::lock_guard guard(state_->mutex);
  const std::pair<std::string, Labels> key{name, {}};
  if (auto found = state_->counters.find(key); found != state_->counters.end()) return found->second->value();
  if (auto found = state_->gauges.find(key); found != state_->gauges.end()) return found->second->value();
  return 0;
}
std::string Metrics::prometheus_text() const { return prometheus::TextSerializer().Serialize(state_->registry.Collect()); }

}  // namespace troupe::base
