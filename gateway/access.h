// AccessRules: who may call. API and admin keys, the Origin of browser pages, and the Host a loopback listener is called by (DNS
// rebinding). Owned by the Service; loop thread; only the keys ever change. Invariants: keys are known by their hashes alone, and
// compared in constant time over all of them; with keys set, a request without a good one is refused wherever the route table does
// not say otherwise.
#pragma once
#include "gateway/http_request.h"
#include "messages/error.h"
#include "messages/ids.h"

#include <optional>
#include <string>
#include <vector>

namespace troupe::gateway {

/// What a route asks of its caller, once keys are set.
enum class Guard {
  kOpen,     // nothing
  kMetrics,  // a key, unless the options open the metrics
  kKey,      // an API key or an admin key; nothing where no API keys are set
  kAdmin,    // an admin key; without admin keys nobody gets in
};

/// Hashes of the keys that are good now (base::hash_text).
struct KeySet {
  std::vector<Hash128> api;    // empty: no key is asked for
  std::vector<Hash128> admin;  // good for every route; empty: admin routes are closed
};

/// Who sends a request, once checked.
struct Caller {
  Hash128 owner;  // hash of the key; all zero where no keys are set
};

struct AccessOptions {
  KeySet keys = {};
  std::vector<std::string> origins = {};  // of browser pages besides our own, "https://app.example" or "*"
  std::vector<std::string> hosts = {};    // names a loopback listener may be called by, besides localhost and its addresses
  std::vector<std::string> bound = {};    // addresses of the listeners; where all are loopback, Host is checked
  bool metrics_open = false;
};

class AccessRules {
 public:
  explicit AccessRules(AccessOptions options);
  void set_keys(KeySet keys) { options_.keys = std::move(keys); }

  /// kHostNotAllowed (403): a loopback listener was called by a name that is not local.
  std::optional<Error> check_host(const HttpRequest& request) const;
  /// kForeignOrigin (403): a page of another origin, and not an allowed one.
  std::optional<Error> check_origin(const HttpRequest& request) const;
  /// Header lines that let an allowed foreign page read the answer; empty for all others.
  std::string cors_headers(const HttpRequest& request) const;
  /// kInvalidKey (401), or kAdminKeyNeeded (403) for an API key where an admin key is needed. The key comes as `Authorization:
  /// Bearer`, or from browsers' WebSockets as the subprotocol "openai-insecure-api-key.<key>".
  Result<Caller> check_key(const HttpRequest& request, Guard guard) const;
  bool needs_key() const { return !options_.keys.api.empty(); }

 private:
  bool origin_listed(const std::string& origin) const;

  AccessOptions options_;
  bool loopback_;  // all listeners are
};

/// The subprotocol to name in the answer of a handshake: the first known one that the client offers, or empty.
std::string_view choose_subprotocol(const HttpRequest& request);

}  // namespace troupe::gateway
