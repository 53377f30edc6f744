// Owners of OpenSSL's objects, its errors as text, and names in certificates. For this folder; any thread.
#pragma once
#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

namespace troupe::cluster::link {

template <auto Free>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPointer = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;
using CertificatePointer = std::unique_ptr<X509, OpensslFree<X509_free>>;
using KeyPointer = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using TlsContextPointer = std::shared_ptr<SSL_CTX>;
using TlsPointer = std::unique_ptr<SSL, OpensslFree<SSL_free>>;

/// What this thread's calls have left behind, newest last; empties the queue. "" where nothing is known.
std::string openssl_errors();
/// The bytes of a memory BIO.
std::string bio_text(BIO* bio);
/// A memory BIO that reads `text`, which must live longer.
BioPointer bio_of(const std::string& text);
/// Common name and DNS names.
std::vector<std::string> names_of(X509* certificate);

}  // namespace troupe::cluster::link
