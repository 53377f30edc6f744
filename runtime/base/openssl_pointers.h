// Owners of OpenSSL's objects. Who includes this links OpenSSL. Any thread.
#pragma once
#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace troupe::base {

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
using TlsContextPointer = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using TlsPointer = std::unique_ptr<SSL, OpensslFree<SSL_free>>;

/// A memory BIO that reads `text`, which must live longer.
inline BioPointer bio_of(const std::string& text) { return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

}  // namespace troupe::base
