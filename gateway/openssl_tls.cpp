// See openssl_tls.h.
#include "gateway/openssl_tls.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/base/openssl_pointers.h"
#include "runtime/base/small_file.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>

namespace troupe::gateway {
namespace {

constexpr std::size_t kMaxWrite = 1 << 20;     // bytes a call; SSL_write counts in int
constexpr std::size_t kKeepBuffer = 16 << 10;  // bytes of a BIO's buffer worth keeping in an idle connection

using base::bio_of;
using base::CertificatePointer;
using base::KeyPointer;

std::size_t capacity(BIO* bio) {
  BUF_MEM* memory = nullptr;
  BIO_get_mem_ptr(bio, &memory);
  return memory == nullptr ? 0 : memory->max;
}

class OpensslSession final : public Tls {
 public:
  explicit OpensslSession(SSL_CTX* context) : session_(SSL_new(context)) {
    if (!session_) throw std::bad_alloc();
    SSL_set_bio(session_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(session_.get());
  }

  State read(std::string_view wire, std::string& plain) override {
    ERR_clear_error();
    BIO_write(SSL_get_rbio(session_.get()), wire.data(), static_cast<int>(wire.size()));
    char buffer[16384];  // a record
    for (;;) {
      const int count = SSL_read(session_.get(), buffer, sizeof buffer);
      if (count > 0) {
        plain.append(buffer, static_cast<std::size_t>(count));
        continue;
      }
      switch (SSL_get_error(session_.get(), count)) {
        case SSL_ERROR_WANT_READ:
          if (auto* bio = SSL_get_rbio(session_.get()); BIO_pending(bio) == 0 && capacity(bio) > kKeepBuffer)
            SSL_set0_rbio(session_.get(), BIO_new(BIO_s_mem()));
          return State::kOk;
        case SSL_ERROR_ZERO_RETURN: return State::kClosed;
        default: return State::kFailed;
      }
    }
  }

  bool write(std::string_view plain) override {
    ERR_clear_error();
    while (!plain.empty()) {
      const int count = SSL_write(session_.get(), plain.data(), static_cast<int>(std::min(plain.size(), kMaxWrite)));
      if (count <= 0) return false;
      plain.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  void take(std::string& wire) override {
    auto* bio = SSL_get_wbio(session_.get());
    char* bytes = nullptr;
    const long count = BIO_get_mem_data(bio, &bytes);
    if (count <= 0) return;
    wire.append(bytes, static_cast<std::size_t>(count));
    if (capacity(bio) > kKeepBuffer)
      SSL_set0_wbio(session_.get(), BIO_new(BIO_s_mem()));
    else
      (void)BIO_reset(bio);
  }

  bool ready() const override { return SSL_is_init_finished(session_.get()) == 1; }

  void shutdown() override {
    ERR_clear_error();
    SSL_shutdown(session_.get());
  }

 private:
  base::TlsPointer session_;
};

class OpensslContext final : public TlsContext {
 public:
  explicit OpensslContext(base::TlsContextPointer context) : context_(std::move(context)) {}
  std::unique_ptr<Tls> accept() override { return std::make_unique<OpensslSession>(context_.get()); }

 private:
  base::TlsContextPointer context_;
};

int choose_alpn(SSL*, const unsigned char** out, unsigned char* size, const unsigned char* offered, unsigned offered_size, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  const int chosen = SSL_select_next_proto(const_cast<unsigned char**>(out), size, kHttp11, sizeof kHttp11 - 1, offered, offered_size);
  return chosen == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

base::TlsContextPointer make_context() {
  base::TlsContextPointer context(SSL_CTX_new(TLS_server_method()));
  if (!context) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);  // sessions are resumed by tickets, which cost us no memory
  SSL_CTX_set_num_tickets(context.get(), 1);
  SSL_CTX_set_alpn_select_cb(context.get(), choose_alpn, nullptr);
  return context;
}

// Asked for a passphrase: there is none, and nobody to type it.
int no_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

}  // namespace

Result<std::shared_ptr<TlsContext>> load_tls(const std::string& certificate_path, const std::string& key_path) {
  auto bad = [](const char* option, const std::string& path, const std::string& what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "--" + std::string(option) + " " + path + ": " + what, option);
  };
  const auto certificate_text = base::read_small_file(certificate_path, "tls-cert");
  if (!certificate_text.ok()) return certificate_text.error();
  const auto key_text = base::read_small_file(key_path, "tls-key");
  if (!key_text.ok()) return key_text.error();

  auto context = make_context();
  auto chain = bio_of(*certificate_text);
  CertificatePointer leaf(PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr));
  if (!leaf) return bad("tls-cert", certificate_path, "holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
  if (SSL_CTX_use_certificate(context.get(), leaf.get()) != 1) return bad("tls-cert", certificate_path, "the certificate cannot be used");
  while (CertificatePointer next{PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)})
    if (SSL_CTX_add0_chain_cert(context.get(), next.get()) == 1) (void)next.release();  // it is the context's now
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    ERR_clear_error();
    return bad("tls-cert", certificate_path, "a certificate behind the first one is damaged");
  }
  ERR_clear_error();

  bool asked = false;
  KeyPointer key(PEM_read_bio_PrivateKey(bio_of(*key_text).get(), nullptr, no_passphrase, &asked));
  ERR_clear_error();
  if (asked) return bad("tls-key", key_path, "needs a passphrase; give a key without one, readable by this user only");
  if (!key) return bad("tls-key", key_path, "holds no private key in PEM form");
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 || SSL_CTX_check_private_key(context.get()) != 1) {
    ERR_clear_error();
    return bad("tls-key", key_path, "is not the key of the certificate in " + certificate_path);
  }
  if (X509_cmp_current_time(X509_get0_notAfter(leaf.get())) < 0)
    base::log(base::LogLevel::kWarning, "tls_certificate_expired", "file=" + base::log_value(certificate_path));
  return std::shared_ptr<TlsContext>(std::make_shared<OpensslContext>(std::move(context)));
}

}  // namespace troupe::gateway
