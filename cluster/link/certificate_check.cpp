// See certificate_check.h.
#include "cluster/link/certificate_check.h"

#include "cluster/link/openssl_text.h"
#include "runtime/base/openssl_pointers.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>

namespace troupe::cluster::link {
namespace {

using base::bio_of;
using base::BioPointer;
using base::CertificatePointer;
using base::KeyPointer;
using base::OpensslFree;
using StorePointer = std::unique_ptr<X509_STORE, OpensslFree<X509_STORE_free>>;
using VerifyPointer = std::unique_ptr<X509_STORE_CTX, OpensslFree<X509_STORE_CTX_free>>;

/// Without a question on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

/// As the handshake sees it: each node is server and client in turn. Empty: it would be believed.
std::string why_not_believed(X509_STORE* store, X509* certificate) {
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    const VerifyPointer verify(X509_STORE_CTX_new());
    if (!verify || X509_STORE_CTX_init(verify.get(), store, certificate, nullptr) != 1) return "no memory";
    X509_STORE_CTX_set_purpose(verify.get(), purpose);
    if (X509_verify_cert(verify.get()) != 1) return X509_verify_cert_error_string(X509_STORE_CTX_get_error(verify.get()));
  }
  return {};
}

}  // namespace

std::optional<CertificateFault> check_certificate(const std::string& authority, const std::string& certificate, const std::string& key,
                                                  const std::string& name) {
  using File = CertificateFault::File;
  const BioPointer authorities = bio_of(authority), certificates = bio_of(certificate), keys = bio_of(key);
  const StorePointer store(X509_STORE_new());
  int known = 0;
  while (const CertificatePointer one{PEM_read_bio_X509(authorities.get(), nullptr, no_passphrase, nullptr)})
    known += X509_STORE_add_cert(store.get(), one.get());
  const CertificatePointer own(PEM_read_bio_X509(certificates.get(), nullptr, no_passphrase, nullptr));
  const KeyPointer private_key(PEM_read_bio_PrivateKey(keys.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (known == 0) return CertificateFault{File::kAuthority, "holds no certificate (PEM)"};
  if (!own) return CertificateFault{File::kCertificate, "holds no certificate (PEM)"};
  if (!private_key) return CertificateFault{File::kKey, "holds no private key without a passphrase (PEM)"};
  const auto names = names_of(own.get());
  if (std::find(names.begin(), names.end(), name) == names.end())
    return CertificateFault{File::kCertificate, "does not carry the node's name: CN = " + name + ", or the same as a DNS name"};
  const bool fits = X509_check_private_key(own.get(), private_key.get()) == 1;
  ERR_clear_error();
  if (!fits) return CertificateFault{File::kKey, "belongs to another certificate"};
  if (const std::string why = why_not_believed(store.get(), own.get()); !why.empty())
    return CertificateFault{File::kCertificate, "is not believed by nodes with this tls_ca: " + why};
  return std::nullopt;
}

}  // namespace troupe::cluster::link
