// TLS of the gateway's one port: 1.2 or newer, ALPN http/1.1, on OpenSSL over memory BIOs, so that it knows no sockets. A context is
// immutable: new certificates are a new context, and connections under way keep the old one alive. Loading blocks on the disk; sessions
// belong to the loop thread.
#pragma once
#include "gateway/tls.h"
#include "messages/error.h"

#include <memory>
#include <string>

namespace troupe::gateway {

/// From PEM files: the certificate with the rest of its chain behind it, and its private key. Errors (kFileUnreadable, kBadConfig) say
/// which file and why; a key that needs a passphrase is refused.
Result<std::shared_ptr<TlsContext>> load_tls(const std::string& certificate_path, const std::string& key_path);

}  // namespace troupe::gateway
