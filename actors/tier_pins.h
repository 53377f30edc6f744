// TierPins: pins and measurements that a tier has passed down and waits for. Owned by a tier's actor. Invariant: each is answered once,
// with what the tier below said, or without it where that tier is gone.
#pragma once
#include "messages/cache.capnp.h"
#include "messages/error.h"
#include "messages/message.h"
#include "runtime/kv/tier_messages.h"

#include <caf/actor.hpp>

#include <deque>
#include <optional>

namespace troupe::actors {

/// How far a path, from its start on, lies in a tier, in tokens; and what that takes.
struct PinnedRun {
  std::uint64_t pin = 0;
  Tier tier = Tier::kDevice;
  std::uint32_t run = 0, path = 0;  // tokens in whole blocks
  std::uint64_t bytes = 0;
  std::optional<Error> error = {};
};

/// Each token counts in the highest tier that has it. `below`: what the tier below has said, if there is one.
Message<messages::Pinned> join_pinned(const PinnedRun& own, const Message<messages::Pinned>* below);

class TierPins {
 public:
  struct Waiting {
    caf::actor asker;
    PinnedRun own;
  };
  void add(Waiting waiting) { waiting_.push_back(std::move(waiting)); }
  /// The oldest of that pin: a tier answers in order.
  std::optional<Waiting> take(std::uint64_t pin);
  std::deque<Waiting> take_all() { return std::exchange(waiting_, {}); }

 private:
  std::deque<Waiting> waiting_;
};

}  // namespace troupe::actors
