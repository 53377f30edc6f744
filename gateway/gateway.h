// Gateway: HTTP/1.1 and WebSocket in front of an EnginePort. The facade that the composition root uses: it owns the loop, the
// listeners and the API service. listen(), attach() and run() are called by one thread, which becomes the loop thread in run();
// everything that says so may be called by any thread. Invariant: every accepted request gets exactly one end, whatever dies.
#pragma once
#include "gateway/engine_port.h"
#include "gateway/limits.h"
#include "messages/admission.capnp.h"
#include "messages/error.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::base {
class Metrics;
}

namespace troupe::gateway {

struct GatewayOptions {
  std::string host = "127.0.0.1";            // IPv4 or IPv6 address to bind; "localhost" binds 127.0.0.1
  std::uint16_t port = 8080;                 // 0 = any free one, see Gateway::port()
  std::vector<std::string> api_keys;         // empty = no key is asked for
  std::vector<std::string> allowed_origins;  // of browser pages besides our own, "https://app.example" or "*"
  std::vector<std::string> allowed_hosts;    // names a loopback listener may be called by, besides localhost and its addresses
  std::uint16_t node = 0;                    // upper 16 bits of request ids
  bool handle_signals = false;               // SIGTERM and SIGINT call `on_signal`, or drain() when none is set
  std::function<void()> on_signal;           // on the loop thread
  Limits limits;
};

class Gateway final : public EngineEvents {
 public:
  Gateway(GatewayOptions options, base::Metrics& metrics);
  ~Gateway() override;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  /// Binds the listener. Errors: kAddressInUse, kBadConfig (no such address), with what to do in the text.
  Status listen();
  /// The bound port; 0 before listen().
  std::uint16_t port() const;
  /// "http://127.0.0.1:8080", for messages to the user.
  std::string url() const;
  /// The engine behind the gateway; it must outlive run(). Before run().
  void attach(EnginePort& engine);
  /// Called on the loop thread when the last connection of a drain is gone, with the number of requests that were cut. Before run().
  void on_drained(std::function<void(std::uint32_t cut)> done);
  /// The loop: blocks until a drain has ended. Until set_directory() was called all API routes answer 503.
  void run();

  // Any thread, also before and after run().
  /// Refuses new work (503, Retry-After), lets running requests end within `grace` (zero: none at all), then ends them with an
  /// error. A second call shortens the grace.
  void drain(std::chrono::milliseconds grace);
  /// Which models are served, by how many replicas. Newest wins. Drives /ready and /v1/models.
  void set_directory(Message<messages::DirectoryChanged> directory);
  // EngineEvents, any thread; order between calls of one thread is kept.
  void admitted(Message<messages::RequestAdmitted> message) override;
  void delta(Message<messages::TokenDelta> message) override;
  void finished(Message<messages::RequestFinished> message) override;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::gateway
