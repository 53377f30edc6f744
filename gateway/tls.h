// The place of TLS: ciphertext <-> plaintext for one connection, without sockets. A server without a TlsContext speaks plain TCP.
// Loop thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace troupe::gateway {

class Tls {
 public:
  virtual ~Tls() = default;
  enum class State { kOk, kClosed, kFailed };
  /// All that one socket read brought; appends what it decrypts.
  virtual State read(std::string_view wire, std::string& plain) = 0;
  /// Encrypts; the records wait for take(). False after a failure.
  virtual bool write(std::string_view plain) = 0;
  /// Moves waiting bytes (handshake, alerts, records) to the end of `wire`.
  virtual void take(std::string& wire) = 0;
  /// The handshake is through.
  virtual bool ready() const = 0;
  /// Queues close_notify.
  virtual void shutdown() = 0;
};

class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<Tls> accept() = 0;
};

}  // namespace troupe::gateway
