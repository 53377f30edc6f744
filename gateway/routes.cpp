// See routes.h. Adding an endpoint: a function in endpoints/endpoints.h with a file of its own, a row here, and its bodies in
// api_schemas.cpp; /openapi.json and docs/http-api.md follow.
#include "gateway/routes.h"

#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"

#include <algorithm>

namespace troupe::gateway {
namespace {

constexpr Field kStoredQuery[] = {fields::kStream, fields::kStartingAfter, fields::kIncludeStored};
constexpr Field kTreeQuery[] = {fields::kListLimit, fields::kTreeAfter};
constexpr Field kDeleteQuery[] = {fields::kSubtree};
constexpr Field kEventsQuery[] = {fields::kEventsAfter, fields::kEventTokens};
constexpr Field kItemsQuery[] = {fields::kListLimit, fields::kListOrder, fields::kListAfter, fields::kIncludeStored};

constexpr std::size_t kKeyNameDigits = 8;  // of a key's hash, in the access log

// clang-format off
constexpr Route kRoutes[] = {
    {"GET", "/", Guard::kOpen, endpoints::page, "the chat page", "", "text/html"},
    {"GET", "/app.js", Guard::kOpen, endpoints::page, "its script", "", "text/javascript"},
    {"GET", "/style.css", Guard::kOpen, endpoints::page, "its style", "", "text/css"},
    {"GET", "/health", Guard::kOpen, endpoints::health, "whether the process lives", "", "Status"},
    {"GET", "/ready", Guard::kOpen, endpoints::ready, "whether it takes work (503 while loading, stuck or shutting down)", "", "Status"},
    {"GET", "/version", Guard::kKey, endpoints::version, "version of the program", "", "Version"},
    {"GET", "/openapi.json", Guard::kKey, endpoints::openapi, "this description", "", "OpenApi"},
    {"GET", "/metrics", Guard::kMetrics, endpoints::metrics, "Prometheus metrics", "", "text/plain"},
    {"GET", "/config", Guard::kAdmin, endpoints::config, "every option of the server, and where it came from", "", "Config"},
    {"GET", "/v1/models", Guard::kKey, endpoints::models, "models served here", "", "ModelList"},
    {"GET", "/v1/models/*", Guard::kKey, endpoints::model, "one of them", "", "Model"},
    {"POST", "/v1/chat/completions", Guard::kKey, endpoints::chat_completions, "answer a conversation", "ChatRequest", "ChatCompletion", true},
    {"POST", "/v1/chat/completions/input_tokens", Guard::kKey, endpoints::count_chat_input, "how many tokens its prompt would have", "ChatRequest", "InputTokens"},
    {"POST", "/v1/completions", Guard::kKey, endpoints::completions, "continue texts", "CompletionRequest", "Completion", true},
    {"GET", "/v1/responses", Guard::kKey, endpoints::responses, "stored responses, as a tree; asked for an upgrade, a WebSocket in Responses mode", "", "ResponseList", false, kTreeQuery},
    {"POST", "/v1/responses", Guard::kKey, endpoints::create_response, "answer a conversation, which may be kept and continued", "ResponseRequest", "Response", true},
    {"POST", "/v1/responses/input_tokens", Guard::kKey, endpoints::count_response_input, "how many tokens its prompt would have", "ResponseInputRequest", "InputTokens"},
    {"GET", "/v1/responses/{id}", Guard::kKey, endpoints::get_response, "a stored response, or its stream from an event on", "", "Response", true, kStoredQuery},
    {"DELETE", "/v1/responses/{id}", Guard::kKey, endpoints::delete_response, "forget it", "", "DeletedResponse", false, kDeleteQuery},
    {"POST", "/v1/responses/{id}/pin", Guard::kKey, endpoints::pin_response, "keep what was computed of its path", "PinRequest", "ResponsePin"},
    {"GET", "/v1/responses/{id}/memory", Guard::kKey, endpoints::response_memory, "where what was computed of its path lies", "", "ResponseMemory"},
    {"POST", "/v1/responses/{id}/score", Guard::kKey, endpoints::score_response, "log-probabilities of texts that would follow it", "ScoreRequest", "ResponseScores"},
    {"POST", "/v1/responses/{id}/cancel", Guard::kKey, endpoints::cancel_response, "end it early", "", "Response"},
    {"GET", "/v1/responses/{id}/input_items", Guard::kKey, endpoints::response_input_items, "what was asked", "", "InputItems", false, kItemsQuery},
    {"GET", "/v1/cache/events", Guard::kAdmin, endpoints::cache_events, "a stream of what the prefix cache stores and removes, in all tiers", "", "text/event-stream", false, kEventsQuery},
    {"GET", "/v1/system_prompts", Guard::kAdmin, endpoints::list_system_prompts, "system prompts whose prefixes are kept in the cache", "", "SystemPromptList"},
    {"POST", "/v1/system_prompts", Guard::kAdmin, endpoints::put_system_prompt, "keep one more, or another text under its name", "SystemPromptRequest", "SystemPrompt"},
    {"DELETE", "/v1/system_prompts/{id}", Guard::kAdmin, endpoints::delete_system_prompt, "keep the one of that name no longer", "", "DeletedSystemPrompt"},
    {"POST", "/tokenize", Guard::kKey, endpoints::tokenize, "token ids of a text or a conversation", "TokenizeRequest", "Tokens"},
    {"POST", "/detokenize", Guard::kKey, endpoints::detokenize, "text of token ids", "DetokenizeRequest", "DetokenizedText"},
    {"POST", "/apply-template", Guard::kKey, endpoints::apply_template, "a conversation as the model's template writes it", "TemplateRequest", "RenderedPrompt"},
};
// clang-format on

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
    "X-Stainless-Timeout, X-Stainless-Helper-Method, Last-Event-ID";

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

const Route* find_route(Service& service, Connection& connection, const HttpRequest& request, Caller& caller) {
  auto path = request.path();
  const auto* route = std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& candidate) {
    return path_matches(candidate, path) && method_matches(candidate, request.method);
  });
  bool found = route != std::end(kRoutes);
  if (found) connection.set_route(route->path);
  const auto& access = service.access();
  if (auto error = access.check_host(request)) return service.answer_error(connection, *error), nullptr;
  if (auto error = access.check_origin(request)) return service.answer_error(connection, *error), nullptr;
  connection.add_headers(access.cors_headers(request));
  if (request.method == "OPTIONS") return answer_preflight(connection, path), nullptr;
  auto known = access.check_key(request, found ? route->guard : Guard::kKey);  // an unknown URL too: what exists is not told
  if (!known.ok()) {
    bool unknown = known.error().error_class == ErrorClass::kUnauthorized;
    return service.answer_error(connection, known.error(), unknown ? "WWW-Authenticate: Bearer\r\n" : ""), nullptr;
  }
  caller = *known;
  if (caller.owner != Hash128{}) connection.set_key_name(base::hex(caller.owner).substr(0, kKeyNameDigits));
  if (!found) return answer_no_route(service, connection, request, path), nullptr;
  return route;
}

void dispatch(Service& service, Connection& connection, HttpRequest&& request) {
  Caller caller;
  if (const auto* route = find_route(service, connection, request, caller))
    route->endpoint(service, connection, std::move(request), caller);
}

}  // namespace troupe::gateway
