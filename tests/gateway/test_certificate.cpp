#include "tests/gateway/test_certificate.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

namespace troupe::gateway {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
std::unique_ptr<std::FILE, CloseFile> create(const std::filesystem::path& path) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  if (!file) throw std::runtime_error("cannot write " + path.string());
  return file;
}

}  // namespace

TestCertificate::TestCertificate(const std::string& name, const std::string& passphrase, bool expired) {
  std::string folder = (std::filesystem::temp_directory_path() / "troupe_cert_XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make a folder");
  folder_ = folder;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
  std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), expired ? -60 : 3600);
  X509_set_pubkey(made.get(), pair.get());
  auto* subject = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(made.get(), subject);
  if (X509_sign(made.get(), pair.get(), EVP_sha256()) == 0) throw std::runtime_error("cannot sign");
  PEM_write_X509(create(certificate()).get(), made.get());
  PEM_write_PKCS8PrivateKey(create(key()).get(), pair.get(), passphrase.empty() ? nullptr : EVP_aes_128_cbc(),
                            passphrase.empty() ? nullptr : passphrase.data(), static_cast<int>(passphrase.size()), nullptr, nullptr);
}

TestCertificate::~TestCertificate() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace troupe::gateway
