// R46: an engine that was wedged while the server called itself healthy. Readiness turns red when there is work and nothing of it gets
// done, and green with the next step.
#include "gateway/progress_watch.h"
#include "runtime/base/metric_names.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;

TEST_CASE("R46: stuck is work of which nothing gets done for the whole of the limit") {
  ProgressWatch watch;
  std::uint64_t now = 5'000'000;
  double done = 7;
  const auto pass = [&](bool work, std::uint64_t ms) {
    bool stuck = false;
    for (std::uint64_t end = now + ms; now < end;) stuck = watch.stuck(work, done, now += 250, 2000);
    return stuck;
  };
  CHECK_FALSE(pass(false, 60'000));
  CHECK_FALSE(pass(true, 1750));
  CHECK(pass(true, 500));
  done += 1;
  CHECK_FALSE(pass(true, 250));
  for (int step = 0; step < 20; step++) {  // slow, but it moves
    done += 1;
    CHECK_FALSE(pass(true, 1500));
  }
  CHECK(pass(true, 3000));
  CHECK_FALSE(pass(false, 250));
  CHECK_FALSE(pass(true, 250));
  // Nobody looked for a while, or the process was paused: that tells nothing of the engine.
  now += 60'000;
  CHECK_FALSE(pass(true, 250));
  CHECK(pass(true, 3000));
}

TEST_CASE("R46: /ready turns red while no step ends, /health does not, and it recovers") {
  GatewayOptions options;
  options.limits.stuck_ms = 500;
  RunningGateway running(options);
  auto& steps = running.metrics.counter(base::metric::kSteps, "steps");
  auto& queued = running.metrics.gauge(base::metric::kRequestsWaiting, "requests");
  TestClient client(running.port());
  CHECK(client.get("/ready").status == 200);
  queued.set(1);
  CHECK(eventually([&] { return client.get("/ready").status == 503; }));
  const auto red = client.get("/ready");
  CHECK(red.json()["status"] == "stuck");
  CHECK(red.headers.contains("retry-after"));
  CHECK(client.get("/health").status == 200);
  steps.increment();
  CHECK(eventually([&] { return client.get("/ready").status == 200; }));
}

TEST_CASE("R46: /ready turns red where nothing takes up a request, until it has gone") {
  GatewayOptions options;
  options.limits.stuck_ms = 500;
  RunningGateway running(options);
  TestClient client(running.port()), asker(running.port());
  const std::string body = R"({"model":"tiny","messages":[{"role":"user","content":"nothing"}]})";
  asker.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  CHECK(eventually([&] { return client.get("/ready").status == 503; }));
  CHECK(client.get("/health").status == 200);
  asker.close();
  CHECK(eventually([&] { return client.get("/ready").status == 200; }));
}
