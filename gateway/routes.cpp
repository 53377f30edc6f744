// See routes.h. Adding an endpoint: a function in endpoints/endpoints.h with a file of its own, and a row here.
#include "gateway/routes.h"

#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"

#include <algorithm>

namespace troupe::gateway {
namespace {

constexpr std::size_t kKeyNameDigits = 8;  // of a key's hash, in the access log

constexpr Route kRoutes[] = {
    {"GET", "/", Guard::kOpen, endpoints::page},
    {"GET", "/app.js", Guard::kOpen, endpoints::page},
    {"GET", "/style.css", Guard::kOpen, endpoints::page},
    {"GET", "/health", Guard::kOpen, endpoints::health},
    {"GET", "/ready", Guard::kOpen, endpoints::ready},
    {"GET", "/metrics", Guard::kMetrics, endpoints::metrics},
    {"GET", "/v1/models", Guard::kKey, endpoints::models},
    {"GET", "/v1/models/*", Guard::kKey, endpoints::model},
    {"POST", "/v1/chat/completions", Guard::kKey, endpoints::chat_completions},
    {"GET", "/v1/responses", Guard::kKey, endpoints::responses},
    {"POST", "/v1/responses", Guard::kKey, endpoints::create_response},
    {"POST", "/v1/responses/input_tokens", Guard::kKey, endpoints::count_response_input},
    {"GET", "/v1/responses/{id}", Guard::kKey, endpoints::get_response},
    {"DELETE", "/v1/responses/{id}", Guard::kKey, endpoints::delete_response},
    {"POST", "/v1/responses/{id}/cancel", Guard::kKey, endpoints::cancel_response},
    {"GET", "/v1/responses/{id}/input_items", Guard::kKey, endpoints::response_input_items},
};

bool path_matches(const Route& route, std::string_view path) {
  if (auto id = route.path.find("{id}"); id != std::string_view::npos) {
    if (path.substr(0, id) != route.path.substr(0, id)) return false;
    auto end = std::min(path.find('/', id), path.size());
    return end > id && path.substr(end) == route.path.substr(id + 4);
  }
  if (route.path.back() != '*') return route.path == path;
  auto prefix = route.path.substr(0, route.path.size() - 1);
  return path.size() > prefix.size() && path.substr(0, prefix.size()) == prefix;
}

// HEAD is answered as GET; the connection leaves the body out.
bool method_matches(const Route& route, std::string_view method) {
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

std::string allowed_methods(std::string_view path) {
  std::string allowed;
  for (const auto& route : kRoutes) {
    if (!path_matches(route, path)) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
    if (route.method == "GET") allowed += ", HEAD";
  }
  return allowed;
}

// What the openai client for browsers sends besides the usual.
const std::string kAllowedHeaders =
    "Authorization, Content-Type, X-Request-Id, OpenAI-Beta, OpenAI-Organization, OpenAI-Project, X-Stainless-Arch, X-Stainless-Lang, "
    "X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, "
    "X-Stainless-Timeout, X-Stainless-Helper-Method";

// A browser asks before it lets a page of an allowed foreign origin send a request with a key or JSON.
void answer_preflight(Connection& connection, const std::string& path) {
  auto methods = allowed_methods(path);
  connection.respond(204, "", "",
                     "Access-Control-Allow-Methods: " + (methods.empty() ? "GET" : methods) +
                         "\r\nAccess-Control-Allow-Headers: " + kAllowedHeaders + "\r\nAccess-Control-Max-Age: 600\r\n");
}

void answer_no_route(Service& service, Connection& connection, const HttpRequest& request, const std::string& path) {
  auto allowed = allowed_methods(path);
  if (allowed.empty())
    return service.answer_error(connection, make_error(ErrorClass::kNotFound, ErrorReason::kUnknownRoute,
                                                       "there is no such URL; the API is below /v1, the chat page at /"));
  auto error = make_error(ErrorClass::kInvalidRequest, ErrorReason::kMethodNotAllowed,
                          request.method + " is not possible on this URL; use " + allowed);
  connection.respond(405, "application/json", error_body(error), "Allow: " + allowed + "\r\n");
}

}  // namespace

std::span<const Route> route_table() { return kRoutes; }

void dispatch(Service& service, Connection& connection, HttpRequest&& request) {
  auto path = request.path();
  const auto* route = std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& candidate) {
    return path_matches(candidate, path) && method_matches(candidate, request.method);
  });
  bool found = route != std::end(kRoutes);
  if (found) connection.set_route(route->path);
  const auto& access = service.access();
  if (auto error = access.check_host(request)) return service.answer_error(connection, *error);
  if (auto error = access.check_origin(request)) return service.answer_error(connection, *error);
  connection.add_headers(access.cors_headers(request));
  if (request.method == "OPTIONS") return answer_preflight(connection, path);
  auto caller = access.check_key(request, found ? route->guard : Guard::kKey);  // an unknown URL too: what exists is not told
  if (!caller.ok()) {
    bool unknown = caller.error().error_class == ErrorClass::kUnauthorized;
    return service.answer_error(connection, caller.error(), unknown ? "WWW-Authenticate: Bearer\r\n" : "");
  }
  if (caller->owner != Hash128{}) connection.set_key_name(base::hex(caller->owner).substr(0, kKeyNameDigits));
  if (!found) return answer_no_route(service, connection, request, path);
  route->endpoint(service, connection, std::move(request), *caller);
}

}  // namespace troupe::gateway
