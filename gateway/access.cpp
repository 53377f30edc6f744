// See access.h.
#include "gateway/access.h"

#include "gateway/http_grammar.h"
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"

#include <algorithm>
#include <array>

namespace troupe::gateway {
namespace {

constexpr std::string_view kKeyProtocol = "openai-insecure-api-key.";
constexpr std::string_view kBearer = "bearer ";
constexpr std::array<std::string_view, 2> kSubprotocols = {"troupe.v1", "realtime"};

// "[::1]:80" -> "[::1]", "localhost:80" -> "localhost".
std::string_view without_port(std::string_view host) {
  auto colon = host.rfind(':');
  bool in_brackets = host.rfind(']') != host.npos && colon < host.rfind(']');
  return colon == host.npos || in_brackets ? host : host.substr(0, colon);
}

bool is_loopback(std::string_view host) { return host == "localhost" || host == "::1" || host.substr(0, 4) == "127."; }

std::string presented_key(const HttpRequest& request) {
  if (const auto* header = request.find("authorization")) {
    std::string_view value = *header;
    if (http::equal_ignoring_case(value.substr(0, kBearer.size()), kBearer)) return std::string(http::trim(value.substr(kBearer.size())));
  }
  for (const auto& [name, value] : request.headers) {
    if (name != "sec-websocket-protocol") continue;
    for (std::string_view rest = value; !rest.empty();) {
      auto comma = rest.find(',');
      auto entry = http::trim(rest.substr(0, comma));
      if (entry.substr(0, kKeyProtocol.size()) == kKeyProtocol) return std::string(entry.substr(kKeyProtocol.size()));
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return {};
}

// Hashes of equal length are compared, all of them and whole, so the time tells nothing about a key.
bool holds(const std::vector<Hash128>& keys, const Hash128& hash) {
  unsigned matches = 0;
  for (const auto& known : keys) matches |= ((known.high ^ hash.high) | (known.low ^ hash.low)) == 0 ? 1U : 0U;
  return matches != 0;
}

}  // namespace

AccessRules::AccessRules(AccessOptions options)
    : options_(std::move(options)), loopback_(std::all_of(options_.bound.begin(), options_.bound.end(), is_loopback)) {}

std::optional<Error> AccessRules::check_host(const HttpRequest& request) const {
  const auto* header = request.find("host");
  if (!loopback_ || header == nullptr) return std::nullopt;
  auto name = without_port(*header);
  bool local = http::equal_ignoring_case(name, "localhost") || name == "[::1]" || name.substr(0, 4) == "127.";
  if (local && name.substr(0, 4) == "127.")  // an address, not a name that begins like one
    local = name.find_first_not_of("0123456789.") == name.npos;
  bool listed =
      std::any_of(options_.hosts.begin(), options_.hosts.end(), [&](const auto& host) { return http::equal_ignoring_case(host, name); });
  if (local || listed) return std::nullopt;
  return make_error(ErrorClass::kForbidden, ErrorReason::kHostNotAllowed,
                    "this server listens on a loopback address and answers to localhost only; --allowed-host adds a name");
}

bool AccessRules::origin_listed(const std::string& origin) const {
  return std::any_of(options_.origins.begin(), options_.origins.end(),
                     [&](const auto& entry) { return entry == "*" || http::equal_ignoring_case(entry, origin); });
}

std::optional<Error> AccessRules::check_origin(const HttpRequest& request) const {
  const auto* origin = request.find("origin");
  if (origin == nullptr) return std::nullopt;  // not a browser, or a same-origin GET
  if (request.count("origin") == 1) {
    const auto* host = request.find("host");
    auto scheme = origin->find("://");
    bool same = host != nullptr && scheme != std::string::npos && http::equal_ignoring_case(origin->substr(scheme + 3), *host);
    if (same || origin_listed(*origin)) return std::nullopt;
  }
  return make_error(ErrorClass::kForbidden, ErrorReason::kForeignOrigin,
                    "pages of this origin may not use the server; --allowed-origin adds one");
}

std::string AccessRules::cors_headers(const HttpRequest& request) const {
  const auto* origin = request.find("origin");
  if (origin == nullptr || !origin_listed(*origin)) return {};
  return "Access-Control-Allow-Origin: " + *origin + "\r\nAccess-Control-Expose-Headers: X-Request-Id, Retry-After\r\nVary: Origin\r\n";
}

Result<Caller> AccessRules::check_key(const HttpRequest& request, Guard guard) const {
  const auto& [api, admin] = options_.keys;
  const bool open = guard == Guard::kOpen || (guard == Guard::kMetrics && options_.metrics_open);
  if (open || (guard != Guard::kAdmin && api.empty())) return Caller{};
  const auto key = presented_key(request);
  const auto hash = base::hash_text(key);
  const bool is_admin = holds(admin, hash), is_known = holds(api, hash) || is_admin;
  if (is_admin || (is_known && guard != Guard::kAdmin)) return Caller{hash};
  if (admin.empty() && (is_known || api.empty()))
    return make_error(ErrorClass::kForbidden, ErrorReason::kAdminKeyNeeded,
                      "this URL needs an admin key, and the server has none: start it with --admin-key-file");
  if (is_known) return make_error(ErrorClass::kForbidden, ErrorReason::kAdminKeyNeeded, "this URL needs an admin key");
  if (key.empty())
    return make_error(ErrorClass::kUnauthorized, ErrorReason::kInvalidKey, "no API key was given: send it as 'Authorization: Bearer KEY'");
  return make_error(ErrorClass::kUnauthorized, ErrorReason::kInvalidKey, "the API key is not valid");
}

std::string_view choose_subprotocol(const HttpRequest& request) {
  for (auto known : kSubprotocols)
    if (request.has_token("sec-websocket-protocol", known)) return known;
  return {};
}

}  // namespace troupe::gateway
