// LinkSession: one connection of the cluster link: TLS 1.3 over a non-blocking socket, certificates on both sides. Without a handshake that
// ended well nothing is read or written. Used by one thread at a time; the socket belongs to the caller.
// LinkTls: what all sessions of a node share: its certificate, and the authority that it believes. Immutable; any thread.
#pragma once
#include "cluster/link/certificates.h"
#include "messages/error.h"
#include "runtime/base/openssl_pointers.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace troupe::cluster::link {

class LinkSession {
 public:
  explicit LinkSession(base::TlsPointer tls) : tls_(std::move(tls)) {}
  enum class State { kOk, kWantRead, kWantWrite, kFailed };  // kFailed: reason() says why, and nothing works from now on
  State handshake();
  /// After the handshake: `count` bytes of `bytes` were moved (kOk, >= 1), or none could be yet.
  State read(void* bytes, std::size_t limit, std::size_t& count);
  State write(const void* bytes, std::size_t size, std::size_t& count);
  /// Plain bytes that read() can give without the socket.
  std::size_t pending() const;
  /// Names in the peer's certificate: common name first, then alternative ones.
  std::vector<std::string> peer_names() const;
  const std::string& reason() const { return reason_; }
  /// The peer broke a rule of ours.
  void refuse(std::string reason);
  bool refused() const { return failed_; }

 private:
  State state_of(int result);
  base::TlsPointer tls_;
  bool failed_ = false;
  std::string reason_;
};

class LinkTls {
 public:
  static Result<LinkTls> make(const NodeCertificate& certificate);
  std::unique_ptr<LinkSession> accept(int socket) const;
  std::unique_ptr<LinkSession> connect(int socket) const;

 private:
  explicit LinkTls(std::shared_ptr<SSL_CTX> context) : context_(std::move(context)) {}
  std::unique_ptr<LinkSession> session(int socket, bool accepted) const;
  std::shared_ptr<SSL_CTX> context_;
};

}  // namespace troupe::cluster::link
