// See gateway.h.
#include "gateway/gateway.h"

#include "gateway/server.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

#include <algorithm>

namespace troupe::gateway {

class Gateway::Parts {
 public:
  Parts(GatewayOptions given, base::Metrics& metrics)
      : options(std::move(given)), service(options, metrics), server(options.limits, service) {
    service.attach(server);
    server.use_tls(options.tls);
  }
  const GatewayOptions options;
  Service service;
  Server server;  // last: destroyed first, its connections still use the service
};

Gateway::Gateway(GatewayOptions options, base::Metrics& metrics) : parts_(std::make_unique<Parts>(std::move(options), metrics)) {
  if (!parts_->options.handle_signals) return;
  if (parts_->options.on_reload) parts_->server.on_hangup(parts_->options.on_reload);
  parts_->server.on_signals([this] {
    if (parts_->options.on_signal)
      parts_->options.on_signal();
    else
      parts_->server.drain(parts_->options.limits.drain_ms);
  });
}

Gateway::~Gateway() = default;

Status Gateway::listen() {
  if (parts_->options.hosts.empty())
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "no address to listen on was given", "host");
  std::uint16_t port = parts_->options.port;
  for (const auto& host : parts_->options.hosts) {
    if (auto status = parts_->server.listen(host, port); !status.ok()) return status;
    port = parts_->server.port();  // of any free one, the same for all
  }
  return ok_status();
}

std::uint16_t Gateway::port() const { return parts_->server.port(); }

std::string Gateway::url() const {
  const auto& host = parts_->options.hosts.front();
  bool v6 = host.find(':') != std::string::npos;
  return (parts_->options.tls ? "https://" : "http://") + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port());
}

void Gateway::attach(EnginePort& engine) { parts_->service.live().attach(engine); }

void Gateway::on_drained(std::function<void(std::uint32_t cut)> done) { parts_->service.on_drained(std::move(done)); }

void Gateway::run() { parts_->server.run(); }

void Gateway::drain(std::chrono::milliseconds grace) {
  auto ms = static_cast<unsigned>(std::max<std::int64_t>(grace.count(), 0));
  parts_->server.post([this, ms] { parts_->server.drain(ms); });
}

void Gateway::set_directory(Message<messages::DirectoryChanged> directory) {
  parts_->server.post([this, directory = std::move(directory)]() mutable { parts_->service.set_directory(std::move(directory)); });
}

void Gateway::set_keys(KeySet keys) {
  parts_->server.post([this, keys = std::move(keys)]() mutable { parts_->service.set_keys(std::move(keys)); });
}

void Gateway::set_tls(std::shared_ptr<TlsContext> tls) {
  parts_->server.post([this, tls = std::move(tls)]() mutable { parts_->server.use_tls(std::move(tls)); });
}

void Gateway::admitted(Message<messages::RequestAdmitted> message) {
  parts_->server.post([this, message = std::move(message)] { parts_->service.live().admitted(*message); });
}

void Gateway::delta(Message<messages::TokenDelta> message) {
  parts_->server.post([this, message = std::move(message)] { parts_->service.live().delta(*message); });
}

void Gateway::finished(Message<messages::RequestFinished> message) {
  parts_->server.post([this, message = std::move(message)] { parts_->service.live().finished(*message); });
}

void Gateway::store_answered(StoreAnswer answer) {
  parts_->server.post([this, answer = std::move(answer)] { parts_->service.store_calls().answered(answer); });
}

void Gateway::block_events(Message<messages::BlockEvents> events) {
  parts_->server.post([this, events = std::move(events)] { parts_->service.cache_events().told(events); });
}

}  // namespace troupe::gateway
