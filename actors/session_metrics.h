// SessionMetrics: what RequestSessions measure about requests; references are looked up once, so that a session costs no look-ups.
// Made once by the Company; any thread (counters and histograms are atomic).
#pragma once
#include "messages/error_reasons.h"
#include "runtime/base/metric_names.h"
#include "runtime/base/metrics.h"
#include "runtime/session/generation.h"

#include <array>
#include <memory>
#include <string>

namespace troupe::actors {

class SessionMetrics {
 public:
  explicit SessionMetrics(std::shared_ptr<base::Metrics> metrics)
      : metrics_(std::move(metrics)),
        first_token(metrics_->histogram(base::metric::kTimeToFirstToken, "from the receipt of a request to its first token",
                                        {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60})),
        inter_token(metrics_->histogram(base::metric::kInterTokenLatency, "time between tokens of a choice",
                                        {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2})),
        latency(metrics_->histogram(base::metric::kRequestLatency, "from the receipt of a request to its end",
                                    {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300})),
        retries(metrics_->counter(base::metric::kRequestRetries, "admissions repeated after the loss of a scheduler")) {
    static constexpr const char* kReasons[] = {"stop", "length", "tool_calls", "abort"};
    for (std::size_t i = 0; i < success_.size(); ++i)
      success_[i] = &metrics_->counter(base::metric::kRequestSuccess, "requests that ended well", {{"finished_reason", kReasons[i]}});
  }
  void succeeded(session::ChoiceReason reason) { success_[static_cast<std::size_t>(reason)]->increment(); }
  void failed(const Error& error) {
    metrics_
        ->counter(base::metric::kRequestFailures, "requests that ended in an error", {{"reason", std::string(reason_name(error.reason))}})
        .increment();
  }

 private:
  std::shared_ptr<base::Metrics> metrics_;
  std::array<base::Counter*, 4> success_{};

 public:
  base::Histogram& first_token;
  base::Histogram& inter_token;
  base::Histogram& latency;
  base::Counter& retries;
};

}  // namespace troupe::actors
