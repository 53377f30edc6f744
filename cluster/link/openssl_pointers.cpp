#include "cluster/link/openssl_pointers.h"

#include <openssl/err.h>

namespace troupe::cluster::link {

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

BioPointer bio_of(const std::string& text) { return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

}  // namespace troupe::cluster::link
