// ReplicaFacts: what stays the same over the life of a replica and several of its actors tell about it. Immutable; any thread.
#pragma once
#include "messages/ids.h"
#include "runtime/kv/block_key.h"

#include <string>

namespace troupe::actors {

struct ReplicaFacts {
  ReplicaId replica{1};
  std::string model_name;
  Hash128 model_content;
  Hash128 template_id;  // of template and tokenizer together

  /// Key domain of the replica before adapter and salt, once its numerics id is known.
  Hash128 key_domain(const Hash128& numerics) const { return kv::key_domain(numerics, model_content, {}, template_id, {}); }
};

}  // namespace troupe::actors
