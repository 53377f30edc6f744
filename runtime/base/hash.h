// SHA-256 cut to 128 bits, streaming. Used for block keys, content hashes and owner keys.
#pragma once
#include "messages/ids.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::base {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(std::string_view text);  // length first, so that fields cannot run into each other
  Hasher& add(std::uint64_t number);   // little-endian
  Hasher& add(const Hash128& hash);
  Hash128 finish();  // ends it

 private:
  void* context_;
};
Hash128 hash_text(std::string_view text);
/// 32 lower-case digits.
std::string hex(const Hash128& hash);

}  // namespace troupe::base
