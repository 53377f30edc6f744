#include "cluster/link/certificates.h"

#include "cluster/link/openssl_text.h"
#include "messages/error_reasons.h"
#include "runtime/base/openssl_pointers.h"
#include "runtime/base/small_file.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstdint>

namespace troupe::cluster::link {
namespace {

using base::bio_of;
using base::BioPointer;
using base::CertificatePointer;
using base::KeyPointer;

constexpr long kDaySeconds = 24 * 3600;
constexpr long kValidDays = 3650;
constexpr std::size_t kNameBytes = 48;  // of the 64 that a common name may have

Error failed(const std::string& what) {
  return make_error(ErrorClass::kInternal, ErrorReason::kBadConfig, "certificates of the cluster link: " + what, {}, openssl_errors());
}

bool add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

struct Made {
  CertificatePointer certificate;
  KeyPointer key;
};

/// Without an issuer: signed by itself, an authority.
Result<Made> make_certificate(const std::string& name, X509* issuer, EVP_PKEY* issuer_key) {
  Made made{CertificatePointer(X509_new()), KeyPointer(EVP_EC_gen("P-256"))};
  X509* certificate = made.certificate.get();
  if (certificate == nullptr || !made.key) return failed("no key could be made");
  std::uint64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) return failed("no random numbers");
  X509_set_version(certificate, 2);  // which is version 3
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kValidDays * kDaySeconds);
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME* subject = X509_get_subject_name(certificate);
  const auto* text = reinterpret_cast<const unsigned char*>(name.data());
  if (X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text, static_cast<int>(name.size()), -1, 0) != 1)
    return failed("'" + name + "' cannot be a certificate's name");
  const bool authority = issuer == nullptr;
  X509_set_issuer_name(certificate, authority ? subject : X509_get_subject_name(issuer));
  X509* signer = authority ? certificate : issuer;
  const bool extended =
      add_extension(certificate, signer, NID_basic_constraints, authority ? "critical,CA:TRUE" : "critical,CA:FALSE") &&
      add_extension(certificate, signer, NID_key_usage, authority ? "critical,keyCertSign" : "critical,digitalSignature") &&
      add_extension(certificate, signer, NID_subject_key_identifier, "hash") &&
      (authority || add_extension(certificate, signer, NID_ext_key_usage, "serverAuth,clientAuth"));
  if (!extended || X509_sign(certificate, authority ? made.key.get() : issuer_key, EVP_sha256()) == 0) return failed("cannot be signed");
  return made;
}

std::string pem_of(X509* certificate) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return bio_text(bio.get());
}

std::string pem_of(EVP_PKEY* key) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return bio_text(bio.get());
}

}  // namespace

struct CertificateMaker::Authority {
  Made made;
};

Result<CertificateMaker> CertificateMaker::make(const std::string& cluster) {
  auto made = make_certificate(cluster.substr(0, kNameBytes) + " authority", nullptr, nullptr);
  if (!made) return made.error();
  return CertificateMaker(std::make_shared<const Authority>(Authority{std::move(*made)}));
}

Result<NodeCertificate> CertificateMaker::issue(const std::string& node) const {
  const Made& authority = authority_->made;
  auto made = make_certificate(node, authority.certificate.get(), authority.key.get());
  if (!made) return made.error();
  return NodeCertificate{pem_of(authority.certificate.get()), pem_of(made->certificate.get()), pem_of(made->key.get())};
}

Result<NodeCertificate> NodeCertificate::parse(const std::string& bundle) {
  const BioPointer keys = bio_of(bundle), certificates = bio_of(bundle);
  const KeyPointer key(PEM_read_bio_PrivateKey(keys.get(), nullptr, nullptr, nullptr));
  const CertificatePointer node(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  const CertificatePointer authority(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  if (!key || !node || !authority) return failed("a key, the node's certificate and the authority's are needed");
  return NodeCertificate{pem_of(authority.get()), pem_of(node.get()), pem_of(key.get())};
}

Result<NodeCertificate> NodeCertificate::read(const std::string& authority, const std::string& certificate, const std::string& key,
                                              const std::string& where) {
  NodeCertificate out;
  for (const auto& [path, text] : {std::pair{&authority, &out.authority}, {&certificate, &out.certificate}, {&key, &out.key}}) {
    auto read = base::read_small_file(*path, where);
    if (!read) return read.error();
    *text = std::move(*read);
  }
  return out;
}

}  // namespace troupe::cluster::link
