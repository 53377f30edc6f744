// Keys of blocks: SHA-256 chained over (key domain, parent's key, token ids), cut to 128 bits. The same in every tier and on every node.
#pragma once
#include "messages/ids.h"

#include <span>
#include <string_view>
#include <vector>

namespace troupe::kv {

/// `parent` is null for the first block. `tokens.size()` == kBlockTokens.
BlockKey block_key(const Hash128& domain, const BlockKey& parent, std::span<const TokenId> tokens);
/// Keys of all full blocks of a prompt.
std::vector<BlockKey> block_keys(const Hash128& domain, std::span<const TokenId> tokens);
/// What a domain is made of: numerics id, model content, adapter content, template/tokenizer id, caller's salt.
Hash128 key_domain(const Hash128& numerics, const Hash128& model, const Hash128& adapter, const Hash128& template_id,
                   std::string_view salt);

}  // namespace troupe::kv
