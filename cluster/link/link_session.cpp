#include "cluster/link/link_session.h"

#include "cluster/link/openssl_text.h"
#include "messages/error_reasons.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::cluster::link {
namespace {

using base::bio_of;

constexpr std::size_t kMostBytes = 1 << 20;  // a call; OpenSSL counts in int

Error bad_certificate(const std::string& what) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "certificate of the cluster link: " + what, "certificate",
                    openssl_errors());
}

}  // namespace

LinkSession::State LinkSession::state_of(int result) {
  const int system_error = errno;
  const int error = SSL_get_error(tls_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return State::kWantRead;
  if (error == SSL_ERROR_WANT_WRITE) return State::kWantWrite;
  std::string reason = openssl_errors();
  if (const long verdict = SSL_get_verify_result(tls_.get()); verdict != X509_V_OK)
    reason += std::string(reason.empty() ? "" : ": ") + X509_verify_cert_error_string(verdict);
  if (reason.empty()) reason = error == SSL_ERROR_SYSCALL && system_error != 0 ? std::strerror(system_error) : "closed by the peer";
  refuse(std::move(reason));
  return State::kFailed;
}

LinkSession::State LinkSession::handshake() {
  if (failed_) return State::kFailed;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(tls_.get());
  return result == 1 ? State::kOk : state_of(result);
}

LinkSession::State LinkSession::read(void* bytes, std::size_t limit, std::size_t& count) {
  count = 0;
  if (failed_ || limit == 0) return failed_ ? State::kFailed : State::kWantRead;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_read(tls_.get(), bytes, static_cast<int>(std::min(limit, kMostBytes)));
  if (result <= 0) return state_of(result);
  count = static_cast<std::size_t>(result);
  return State::kOk;
}

LinkSession::State LinkSession::write(const void* bytes, std::size_t size, std::size_t& count) {
  count = 0;
  if (failed_ || size == 0) return failed_ ? State::kFailed : State::kWantWrite;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_write(tls_.get(), bytes, static_cast<int>(std::min(size, kMostBytes)));
  if (result <= 0) return state_of(result);
  count = static_cast<std::size_t>(result);
  return State::kOk;
}

std::size_t LinkSession::pending() const { return failed_ ? 0 : static_cast<std::size_t>(SSL_pending(tls_.get())); }

void LinkSession::refuse(std::string reason) {
  failed_ = true;
  if (reason_.empty()) reason_ = std::move(reason);
}

std::vector<std::string> LinkSession::peer_names() const {
  X509* certificate = SSL_get0_peer_certificate(tls_.get());
  return certificate == nullptr ? std::vector<std::string>() : names_of(certificate);
}

Result<LinkTls> LinkTls::make(const NodeCertificate& from) {
  base::TlsContextPointer context(SSL_CTX_new(TLS_method()));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) return bad_certificate("TLS 1.3 is not there");
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);  // each connection shows its certificate
  SSL_CTX_set_num_tickets(context.get(), 0);
  // The caller's buffer may move between two tries of a write.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  const base::BioPointer node = bio_of(from.certificate), key_text = bio_of(from.key), authorities = bio_of(from.authority);
  const base::CertificatePointer certificate(PEM_read_bio_X509(node.get(), nullptr, nullptr, nullptr));
  if (!certificate || SSL_CTX_use_certificate(context.get(), certificate.get()) != 1) return bad_certificate("no certificate in its file");
  const base::KeyPointer key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (!key || SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 || SSL_CTX_check_private_key(context.get()) != 1)
    return bad_certificate("the private key is missing or belongs to another certificate");
  int known = 0;
  while (base::CertificatePointer authority{PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr)})
    known += X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get());
  ERR_clear_error();  // the end of the text
  if (known == 0) return bad_certificate("no certificate of an authority in its file");
  return LinkTls(std::move(context));
}

std::unique_ptr<LinkSession> LinkTls::session(int socket, bool accepted) const {
  base::TlsPointer tls(SSL_new(context_.get()));
  if (!tls || SSL_set_fd(tls.get(), socket) != 1) throw std::bad_alloc();
  accepted ? SSL_set_accept_state(tls.get()) : SSL_set_connect_state(tls.get());
  return std::make_unique<LinkSession>(std::move(tls));
}
std::unique_ptr<LinkSession> LinkTls::accept(int socket) const { return session(socket, true); }
std::unique_ptr<LinkSession> LinkTls::connect(int socket) const { return session(socket, false); }

}  // namespace troupe::cluster::link
