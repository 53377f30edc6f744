#include "cluster/link/openssl_text.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

namespace troupe::cluster::link {
namespace {

std::string text_of(const ASN1_STRING* text) {
  const auto* bytes = reinterpret_cast<const char*>(ASN1_STRING_get0_data(text));
  return {bytes, static_cast<std::size_t>(ASN1_STRING_length(text))};
}

}  // namespace

std::string openssl_errors() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    if (!text.empty()) text += "; ";
    text += reason != nullptr ? std::string(reason) : "error " + std::to_string(code);
  }
  return text;
}

std::string bio_text(BIO* bio) {
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(bio, &bytes);
  return count > 0 ? std::string(bytes, static_cast<std::size_t>(count)) : std::string();
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names;
  X509_NAME* subject = X509_get_subject_name(certificate);
  if (const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1); index >= 0)
    names.push_back(text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index))));
  auto* alternatives = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; alternatives != nullptr && i < sk_GENERAL_NAME_num(alternatives); ++i)
    if (const GENERAL_NAME* name = sk_GENERAL_NAME_value(alternatives, i); name->type == GEN_DNS) names.push_back(text_of(name->d.dNSName));
  GENERAL_NAMES_free(alternatives);
  return names;
}

}  // namespace troupe::cluster::link
