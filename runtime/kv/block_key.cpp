#include "runtime/kv/block_key.h"

#include "messages/error.h"
#include "runtime/base/hash.h"

#include <array>
#include <cstddef>

namespace troupe::kv {

BlockKey block_key(const Hash128& domain, const BlockKey& parent, std::span<const TokenId> tokens) {
  TROUPE_CHECK(tokens.size() == kBlockTokens);
  std::array<std::byte, kBlockTokens * sizeof(TokenId)> bytes;
  std::size_t at = 0;
  for (TokenId token : tokens)
    for (unsigned shift = 0; shift < 32; shift += 8) bytes[at++] = static_cast<std::byte>(token >> shift & 0xff);
  BlockKey key = base::Hasher().add(domain).add(parent).add(std::span<const std::byte>(bytes)).finish();
  if (!key) key.low = 1;  // null means "no parent"
  return key;
}

std::vector<BlockKey> block_keys(const Hash128& domain, std::span<const TokenId> tokens) {
  std::vector<BlockKey> keys;
  keys.reserve(tokens.size() / kBlockTokens);
  BlockKey parent;
  for (std::size_t at = 0; at + kBlockTokens <= tokens.size(); at += kBlockTokens)
    keys.push_back(parent = block_key(domain, parent, tokens.subspan(at, kBlockTokens)));
  return keys;
}

Hash128 key_domain(const Hash128& numerics, const Hash128& model, const Hash128& adapter, const Hash128& template_id,
                   std::string_view salt) {
  return base::Hasher().add(numerics).add(model).add(adapter).add(template_id).add(salt).finish();
}

}  // namespace troupe::kv
