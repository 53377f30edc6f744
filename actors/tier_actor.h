// TierActor: what the actors of all cache tiers have in common: how one stands to the tier below it. It finds and monitors that tier, asks
// it for what its own run does not cover, passes on what ends locks there, has it write down what is new here, and flushes at a drain. The
// death of the tier below is a miss for whoever waits, and a delay for what is written down; nothing else. Where there is none, nothing of
// this costs a message. Base class; its thread is the actor's. Invariant: each Match is answered once, and a lock that may hold something
// below is ended there.
#pragma once
#include "actors/actor_base.h"
#include "actors/tier_pins.h"
#include "messages/cache.capnp.h"
#include "messages/supervision.capnp.h"
#include "runtime/kv/pin_table.h"
#include "runtime/kv/write_downs.h"

#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

namespace troupe::actors {

class TierActor : public ActorBase {
 public:
  void on_exit() override;

 protected:
  /// `below`: roles of the tiers that may stand below, nearest first.
  TierActor(caf::actor_config& config, ContextPtr context, const char* name, std::uint32_t replica, std::vector<Role> below);

  /// A match whose own part is done.
  struct Asked {
    caf::actor asker;
    kv::PrefixMatched answer;
    kv::Match below;                // what is left; no keys: nothing
    std::size_t prompt_tokens = 0;  // device tier
  };

  /// What comes from and about the tier below, and drains. To be joined with the tier's own handlers.
  caf::message_handler common_handlers();
  GroupEpoch epoch() const { return epoch_; }
  std::uint32_t replica() const { return replica_; }
  bool current(std::uint32_t epoch) const { return epoch == epoch_.value && group_; }
  /// False: an older group, or one that is known.
  bool is_new(messages::GroupReady::Reader group) const {
    return group.getEpoch() > epoch_.value || (group.getEpoch() == epoch_.value && !group_);
  }
  /// The group has a tier below.
  bool group_has_below(messages::GroupReady::Reader group) const;
  /// Once the tier's index has begun the epoch.
  void enter(const Message<messages::GroupReady>& group);
  /// Until the next enter(), messages of no epoch are current.
  void leave(GroupEpoch lost);

  bool has_below() const { return static_cast<bool>(below_); }
  void answer(Asked asked);
  void release_below(const kv::ReleaseBlocks& release);
  void finish_load_below(const kv::LoadFinished& load);
  /// After whatever may have left something to write down, or room to ask for more.
  void write_down();

  // The tier's index.
  virtual const kv::WriteDowns& write_downs() const = 0;
  virtual kv::WriteDownWanted next_write_downs() = 0;
  virtual void written_down(const kv::WrittenDown& written) = 0;
  virtual void tier_below_lost(bool for_good) = 0;
  virtual void join(Asked& asked, const kv::PrefixMatched& below) = 0;
  virtual void report() = 0;  // to /metrics
  virtual Tier tier() const = 0;
  virtual Status pin(const kv::PinName& name, std::span<const BlockKey> path, std::uint64_t until) = 0;
  virtual void unpin(const kv::PinName& name) = 0;
  virtual void expire_pins(std::uint64_t now) = 0;
  virtual std::uint32_t run_of(std::span<const BlockKey> path) const = 0;  // blocks
  virtual void on_other_down(const caf::down_msg&) {}
  virtual void on_tiers_changed() {}  // one below has been started anew, or is gone for good

 private:
  struct Flush {
    caf::actor asker;
    TimePoint until;
    std::uint32_t written = 0;
    bool passed_on = false;
  };

  void connect();
  void lose_below();
  void on_matched(const kv::PrefixMatched& matched);
  void on_written(const kv::WrittenDown& written);
  void ask_write_downs();
  void on_flush(std::uint32_t grace_ms);
  void check_flushed();
  void end_flush(std::uint32_t written_below, std::uint32_t lost_below);
  std::uint32_t unwritten() const;
  void on_pin(const Message<messages::Pin>& message);

  const std::uint32_t replica_;
  const std::vector<Role> roles_below_;
  GroupEpoch epoch_;
  std::optional<Message<messages::GroupReady>> group_;
  caf::actor below_;
  std::map<LockId, Asked> asked_;
  std::unordered_set<LockId> held_below_;  // locks that may hold something there
  bool write_timer_ = false;
  std::optional<Flush> flush_;
  TierPins pins_;
};

}  // namespace troupe::actors
