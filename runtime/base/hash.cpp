#include "runtime/base/hash.h"

#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <stdexcept>

namespace troupe::base {
namespace {
EVP_MD_CTX* context_of(void* context) { return static_cast<EVP_MD_CTX*>(context); }
std::uint64_t big_endian(const unsigned char* bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | bytes[i];
  return value;
}
}  // namespace

Hasher::Hasher() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || EVP_DigestInit_ex(context_of(context_), EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 is not available");
}
Hasher::~Hasher() { EVP_MD_CTX_free(context_of(context_)); }

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_of(context_), bytes.data(), bytes.size());
  return *this;
}
Hasher& Hasher::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  return add(std::as_bytes(std::span(text.data(), text.size())));
}
Hasher& Hasher::add(std::uint64_t number) {
  std::array<std::byte, 8> bytes;
  for (auto& byte : bytes) {
    byte = static_cast<std::byte>(number & 0xff);
    number >>= 8;
  }
  return add(bytes);
}
Hasher& Hasher::add(const Hash128& hash) { return add(hash.high).add(hash.low); }

Hash128 Hasher::finish() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(context_of(context_), digest.data(), nullptr);
  return {big_endian(digest.data()), big_endian(digest.data() + 8)};
}

Hash128 hash_text(std::string_view text) { return Hasher().add(text).finish(); }

std::string hex(const Hash128& hash) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return text.data();
}

}  // namespace troupe::base
