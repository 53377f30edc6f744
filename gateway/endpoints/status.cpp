// GET /health, /ready and /metrics.
#include "gateway/endpoints/endpoints.h"
#include "gateway/service.h"

namespace troupe::gateway::endpoints {

void health(Service&, Connection& connection, HttpRequest&&, const Caller&) {
  connection.respond(200, "application/json", R"({"status":"ok"})", "Cache-Control: no-store\r\n");
}

void ready(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  if (service.draining() || !service.ready()) {
    auto body = service.draining() ? R"({"status":"draining"})" : R"({"status":"loading"})";
    return connection.respond(503, "application/json", body, "Retry-After: 1\r\nCache-Control: no-store\r\n");
  }
  // "key_needed" lets the chat page ask for a key before its first request.
  auto body = service.access().needs_key() ? R"({"status":"ready","key_needed":true})" : R"({"status":"ready","key_needed":false})";
  connection.respond(200, "application/json", body, "Cache-Control: no-store\r\n");
}

void metrics(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  connection.respond(200, "text/plain; version=0.0.4; charset=utf-8", service.metrics().prometheus_text());
}

}  // namespace troupe::gateway::endpoints
