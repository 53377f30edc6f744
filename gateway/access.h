// AccessRules: who may call. API keys, the Origin of browser pages, and the Host a loopback listener is called by (DNS rebinding).
// Immutable after construction. Invariants: a key is compared in constant time over all keys; with keys set, a request without a
// good one is refused wherever the route table does not say otherwise.
#pragma once
#include "gateway/http_request.h"
#include "messages/error.h"
#include "messages/ids.h"

#include <optional>
#include <string>
#include <vector>

namespace troupe::gateway {

/// Who sends a request, once checked.
struct Caller {
  Hash128 owner;  // hash of the API key; all zero where no keys are set
};

class AccessRules {
 public:
  /// `bound_host`: the address of the listener; on a loopback address Host is checked.
  AccessRules(const std::vector<std::string>& keys, std::vector<std::string> origins, std::vector<std::string> hosts,
              std::string bound_host);

  /// kHostNotAllowed (403): a loopback listener was called by a name that is not local.
  std::optional<Error> check_host(const HttpRequest& request) const;
  /// kForeignOrigin (403): a page of another origin, and not an allowed one.
  std::optional<Error> check_origin(const HttpRequest& request) const;
  /// Header lines that let an allowed foreign page read the answer; empty for all others.
  std::string cors_headers(const HttpRequest& request) const;
  /// kInvalidKey (401). The key comes as `Authorization: Bearer`, or from browsers' WebSockets as the subprotocol
  /// "openai-insecure-api-key.<key>".
  Result<Caller> check_key(const HttpRequest& request) const;
  bool needs_key() const { return !key_hashes_.empty(); }

 private:
  bool origin_listed(const std::string& origin) const;

  std::vector<Hash128> key_hashes_;
  std::vector<std::string> origins_;
  std::vector<std::string> hosts_;
  bool loopback_;
};

/// The subprotocol to name in the answer of a handshake: the first known one that the client offers, or empty.
std::string_view choose_subprotocol(const HttpRequest& request);

}  // namespace troupe::gateway
