// RunningGateway: a Gateway with a FakeEngine on a free port, its loop on a thread of its own; drained when it goes out of scope.
#pragma once
#include "gateway/gateway.h"
#include "runtime/base/metrics.h"
#include "tests/gateway/fake_engine.h"

#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

namespace troupe::gateway {

class RunningGateway {
 public:
  explicit RunningGateway(GatewayOptions options = {}, bool loaded = true)
      : gateway(free_port(std::move(options)), metrics), engine(gateway) {
    auto listening = gateway.listen();
    if (!listening.ok()) throw std::runtime_error(listening.error().client_text);
    gateway.attach(engine);
    gateway.on_drained([this](std::uint32_t count) { cut = count; });
    if (loaded) gateway.set_directory(FakeEngine::directory());
    loop_ = std::thread([this] { gateway.run(); });
  }
  ~RunningGateway() { stop(); }
  void stop() {
    if (!loop_.joinable()) return;
    gateway.drain(std::chrono::milliseconds(50));
    loop_.join();
  }
  void join() { loop_.join(); }
  std::uint16_t port() const { return gateway.port(); }

  base::Metrics metrics;
  Gateway gateway;
  FakeEngine engine;
  std::uint32_t cut = 0;

 private:
  static GatewayOptions free_port(GatewayOptions options) {
    options.port = 0;
    options.limits.drain_cut_ms = 100;
    options.limits.linger_ms = 100;
    return options;
  }
  std::thread loop_;
};

/// Waits until `condition` holds, at most ten seconds.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; i++) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace troupe::gateway
