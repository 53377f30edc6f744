// BlockEventSource: block events on their way to readers: the log of all tiers, and the reads that wait for what comes next. Made when the
// first reader comes: before that, nothing is logged. Owned by the device tier's actor, on its thread.
// Invariants: a reader has at most one read here; a read is answered once, or replaced; no more wait than kMostWaiting.
#pragma once
#include "messages/cache.capnp.h"
#include "messages/message.h"
#include "runtime/kv/block_event_log.h"
#include "runtime/kv/tier_messages.h"

#include <caf/actor.hpp>

#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace troupe::actors {

class BlockEventSource {
 public:
  static constexpr std::size_t kPage = 1024;  // events in a message: 188 KB with their tokens
  static constexpr std::size_t kMostWaiting = 64;
  using TokensOf = std::function<std::span<const TokenId>(const BlockKey&)>;
  using Answers = std::vector<std::pair<caf::actor, Message<messages::BlockEvents>>>;

  BlockEventSource(ReplicaId replica, Incarnation incarnation, TokensOf tokens_of)
      : replica_(replica), incarnation_(incarnation), tokens_of_(std::move(tokens_of)) {}

  void add(Tier tier, std::vector<kv::BlockChange> changes);
  /// A snapshot, or a whole page of events, is answered at once; else the read waits.
  Answers read(const caf::actor& asker, const kv::ReadBlockEvents& read);
  /// Somebody waits, and there is something for him: answer_waiting() soon.
  bool due() const;
  Answers answer_waiting();

 private:
  struct Read {
    caf::actor asker;
    kv::ReadBlockEvents wanted;
  };
  void answer(const Read& read, Answers& answers) const;
  kv::BlockEvents page_for(const Read& read, std::vector<kv::BlockChange> changes) const;

  const ReplicaId replica_;
  const Incarnation incarnation_;
  const TokensOf tokens_of_;
  kv::BlockEventLog log_;
  std::deque<Read> waiting_;
};

}  // namespace troupe::actors
