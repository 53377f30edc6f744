// GET /health, /ready, /metrics and /config.
#include "gateway/endpoints/endpoints.h"
#include "gateway/service.h"

#include <string>

namespace troupe::gateway::endpoints {

void health(Service&, Connection& connection, HttpRequest&&, const Caller&) {
  connection.respond(200, "application/json", R"({"status":"ok"})", "Cache-Control: no-store\r\n");
}

void ready(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  const char* fault = service.draining() ? "draining" : !service.ready() ? "loading" : service.stuck() ? "stuck" : nullptr;
  if (fault != nullptr) {
    auto body = R"({"status":")" + std::string(fault) + "\"}";
    return connection.respond(503, "application/json", body, "Retry-After: 1\r\nCache-Control: no-store\r\n");
  }
  // "key_needed" lets the chat page ask for a key before its first request.
  auto body = service.access().needs_key() ? R"({"status":"ready","key_needed":true})" : R"({"status":"ready","key_needed":false})";
  connection.respond(200, "application/json", body, "Cache-Control: no-store\r\n");
}

void metrics(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  connection.respond(200, "text/plain; version=0.0.4; charset=utf-8", service.metrics().prometheus_text());
}

void config(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  connection.respond(200, "application/json", service.config_json(), "Cache-Control: no-store\r\n");
}

}  // namespace troupe::gateway::endpoints
