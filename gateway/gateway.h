// Gateway: HTTP/1.1 and WebSocket in front of an EnginePort. The facade that the composition root uses: it owns the loop, the
// listeners and the API service. listen(), attach() and run() are called by one thread, which becomes the loop thread in run();
// everything that says so may be called by any thread. Invariant: every accepted request gets exactly one end, whatever dies.
#pragma once
#include "gateway/access.h"
#include "gateway/engine_port.h"
#include "gateway/limits.h"
#include "gateway/system_prompt.h"
#include "gateway/tls.h"
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
  std::vector<std::string> hosts = {"127.0.0.1"};  // IPv4 and IPv6 addresses to bind; "localhost" binds 127.0.0.1
  std::uint16_t port = 8080;                       // of all of them; 0 = any free one, see Gateway::port()
  KeySet keys;
  std::vector<std::string> allowed_origins;  // see AccessOptions
  std::vector<std::string> allowed_hosts;
  bool metrics_open = false;
  std::string config_json = "{}";   // what GET /config answers; secrets are the caller's to leave out
  bool access_log = false;          // one line a request, by base::log_access
  std::shared_ptr<TlsContext> tls;  // null = plain TCP
  std::uint16_t node = 0;           // upper 16 bits of request ids
  bool handle_signals = false;      // SIGTERM and SIGINT call `on_signal`, or drain() when none is set
  std::function<void()> on_signal;  // on the loop thread
  bool durable_responses = false;   // stored responses are to survive a restart
  std::function<void()> on_reload;  // SIGHUP, on the loop thread; without it SIGHUP ends the process as usual
  SystemPrompts system_prompts;     // to be kept in the cache, each with a name of its own
  Limits limits;
};

class Gateway final : public EngineEvents {
 public:
  Gateway(GatewayOptions options, base::Metrics& metrics);
  ~Gateway() override;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  /// Binds the listeners. Errors: kAddressInUse, kBadConfig (no such address), with what to do in the text.
  Status listen();
  /// The bound port; 0 before listen().
  std::uint16_t port() const;
  /// Of the first listener, for messages to the user: "http://127.0.0.1:8080".
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
  /// The keys that are good from now on; open connections and running requests go on.
  void set_keys(KeySet keys);
  /// Of connections accepted from now on.
  void set_tls(std::shared_ptr<TlsContext> tls);
  // EngineEvents, any thread; order between calls of one thread is kept.
  void admitted(Message<messages::RequestAdmitted> message) override;
  void delta(Message<messages::TokenDelta> message) override;
  void finished(Message<messages::RequestFinished> message) override;
  void store_answered(StoreAnswer answer) override;
  void block_events(Message<messages::BlockEvents> events) override;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::gateway
