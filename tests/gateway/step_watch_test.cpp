// R46: an engine that hangs while /health says ok. Readiness goes red when work waits and no step finishes, and green with the next.
#include "gateway/step_watch.h"
#include "runtime/base/metric_names.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;

namespace {

struct Engine {
  explicit Engine(base::Metrics& metrics)
      : running(metrics.gauge(base::metric::kRequestsRunning, "")),
        waiting(metrics.gauge(base::metric::kRequestsWaiting, "")),
        steps(metrics.counter(base::metric::kSteps, "")) {}
  base::Gauge& running;
  base::Gauge& waiting;
  base::Counter& steps;
};

}  // namespace

TEST_CASE("stalled is work without a step for longer than the limit") {
  base::Metrics metrics;
  StepWatch watch(metrics, 2000);
  Engine engine(metrics);
  std::uint64_t now = 100'000;
  const auto pass = [&](std::uint64_t ms) {
    for (std::uint64_t end = now + ms; now < end;) watch.look(now += 250);
    return watch.stalled_ms(now);
  };
  CHECK(pass(10'000) == 0);  // nothing to do
  engine.waiting.set(1);
  CHECK(pass(2000) == 0);
  CHECK(pass(1000) == 3000);
  engine.steps.increment();
  CHECK(pass(250) == 0);
  engine.waiting.set(0);
  engine.running.set(3);
  for (int i = 0; i < 20; i++) {  // slow, but it moves
    engine.steps.increment();
    CHECK(pass(1500) == 0);
  }
  CHECK(pass(3000) > 0);
  engine.running.set(0);
  CHECK(pass(250) == 0);
  // Nobody looked for a while, or the process was paused: that says nothing about the engine.
  engine.running.set(1);
  CHECK(pass(250) == 0);
  watch.look(now += 60'000);
  CHECK(watch.stalled_ms(now) == 0);
  CHECK(pass(3000) > 0);
}

TEST_CASE("/ready goes red with the reason, /health stays, and it recovers") {
  GatewayOptions options;
  options.limits.step_ms = 500;
  RunningGateway running(options);
  Engine engine(running.metrics);
  TestClient client(running.port());
  CHECK(client.get("/ready").status == 200);
  engine.running.set(1);
  CHECK(eventually([&] { return client.get("/ready").status == 503; }));
  const auto red = client.get("/ready");
  CHECK(red.json()["status"] == "stalled");
  CHECK(red.json()["reason"].get<std::string>().find("no step has finished") != std::string::npos);
  CHECK(red.headers.contains("retry-after"));
  CHECK(client.get("/health").status == 200);
  engine.steps.increment();
  CHECK(eventually([&] { return client.get("/ready").status == 200; }));
}
