// TierBench: the three cache tiers' actors under the real NodeSupervisor, on CAF's deterministic scheduler, with a scheduler that only
// writes down what it is told and shards whose blocks are their keys. Shards check that what they move is there, keep what was written
// over deaths and epochs, and end moves when the test says so.
#pragma once
#include "actors/actor_config.h"
#include "actors/actor_context.h"
#include "actors/node_supervisor.h"
#include "messages/caf_types.h"
#include "runtime/kv/tier_messages.h"
#include "runtime/plan/block_moves.h"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::test {

using actors::Role;
using std::chrono::milliseconds;

struct TierBenchOptions {
  std::uint32_t device = 32, host = 64, disk = 128;  // blocks; 0 = no such tier
  std::uint16_t ranks = 2;
  actors::RestartLimits restarts{.restarts = 1000, .window = milliseconds{60'000}};
};

/// A rank's stores.
struct RankBytes {
  std::map<BlockId, BlockKey> host, disk;
  Incarnation host_tier = 0, disk_tier = 0;  // newest heard of
};

struct TierWorld {
  std::map<BlockId, BlockKey> device;  // what the scheduler has computed; the same on all ranks
  std::vector<RankBytes> ranks;
  GroupEpoch epoch;
  std::optional<Tier> hold_only;                                          // of moves to this tier
  bool hold = false;                                                      // moves wait for release_moves()
  std::function<bool(std::uint16_t rank, const plan::BlockMove&)> fails;  // one move on one rank
  std::vector<std::function<void()>> held;
  std::size_t impossible = 0;  // moves of what was not there
  // What the scheduler was told.
  std::vector<kv::PrefixMatched> matched;
  std::vector<kv::BlocksLeased> leased;
  bool drain_asked = false;
};

class TierBench {
 public:
  explicit TierBench(TierBenchOptions options = {});
  ~TierBench();

  void settle();
  void advance(milliseconds time);
  void start_epoch();
  void lose_epoch();
  void release_moves();
  void kill(Role role) { caf::anon_send_exit(find(role), caf::exit_reason::kill); }
  caf::actor find(Role role) const;
  void drain(milliseconds grace);

  // The scheduler's side.
  template <class Schema>
  void tell(Role role, Message<Schema> message) {
    caf::send_as(scheduler, find(role), std::move(message));
  }
  std::vector<BlockId> lease(std::uint32_t blocks);
  void give_back(const std::vector<BlockId>& blocks);
  /// Computes a chain, publishes and lets it go; parts of it that are cached are computed again, in vain.
  std::vector<BlockKey> publish(const std::vector<TokenId>& tokens);
  /// Sends it; the answer comes when things settle.
  kv::Match ask(const std::vector<TokenId>& tokens);
  std::optional<kv::PrefixMatched> answer_to(const kv::Match& match) const;
  /// Both; checks that what was found is there on all ranks.
  kv::PrefixMatched match(const std::vector<TokenId>& tokens);
  void check_found(const kv::Match& match, const kv::PrefixMatched& matched) const;
  void finish_load(const kv::PrefixMatched& matched, std::vector<BlockKey> failed);
  void release(const kv::PrefixMatched& matched);

  /// Blocks that all ranks have there.
  bool stored(Tier tier, const BlockKey& key) const;
  std::size_t count(const std::string& message) const;  // "DeviceTier>HostTier:Match"
  double metric(const std::string& line_start) const;
  /// No lock in any tier.
  bool unlocked() const;

  TierBenchOptions options;
  std::shared_ptr<TierWorld> world = std::make_shared<TierWorld>();
  std::vector<std::string> log;
  std::optional<std::uint32_t> drained;
  std::shared_ptr<base::Metrics> metrics = std::make_shared<base::Metrics>();
  std::shared_ptr<actors::ActorContext> context = std::make_shared<actors::ActorContext>();
  actors::ActorConfig config{actors::ActorConfig::Testing{}};
  caf::actor_system system{config};
  caf::actor scheduler, supervisor;
  std::vector<caf::actor> shards;

 private:
  caf::scheduler::test_coordinator& coordinator() { return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()); }
  std::string name_of(std::uint64_t id) const;
  std::uint64_t last_lock_ = 0;
};

inline std::vector<TokenId> chain(TokenId name, std::size_t blocks, std::size_t more = 5) {
  std::vector<TokenId> tokens(blocks * kBlockTokens + more, name);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = name * 1000 + static_cast<TokenId>(i);
  return tokens;
}
inline constexpr milliseconds kWhile{500};  // in which all is written down

/// Blocks the device holds no more, but for the first `left` of the chain used last.
inline void empty_device(TierBench& bench, std::uint32_t left = 0) {
  bench.give_back(bench.lease(bench.options.device - left));
  bench.settle();
}

}  // namespace troupe::test
