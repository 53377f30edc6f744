// ResponsePins: the pins of stored responses as the router is told of them: a number and the keys of the path. Owned by the SessionStore
// actor, on its thread. Invariant: one entry a pinned response; the tier bounds how many keys there can be.
#pragma once
#include "runtime/kv/block_key.h"
#include "runtime/session/session_tree.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// The same after a restart, so that a pin can be renewed and ended by whoever knows the response.
std::uint64_t pin_number(const Hash128& owner, const std::string& id);

class ResponsePins {
 public:
  struct Active {
    std::uint64_t number = 0;
    Hash128 domain;
    std::vector<BlockKey> keys;
  };

  bool knows(const session::PinnedResponse& pin) const { return find(pin) != nullptr; }
  const Active* find(const session::PinnedResponse& pin) const;
  void add(const session::PinnedResponse& pin, const Hash128& domain, std::vector<BlockKey> keys);
  /// Forgets all others, and returns them.
  std::vector<Active> keep_only(const std::vector<session::PinnedResponse>& pins);
  bool empty() const { return active_.empty(); }

 private:
  std::map<std::pair<Hash128, std::string>, Active> active_;  // by owner and id
};

}  // namespace troupe::actors
