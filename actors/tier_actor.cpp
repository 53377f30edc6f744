#include "actors/tier_actor.h"

#include "actors/timers.h"
#include "actors/wire/cache.h"
#include "actors/wire/common.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {
// Decoding publishes a block now and then: several go down at once, soon enough that a crash loses little.
constexpr std::uint32_t kWriteDownsAtOnce = 16;
constexpr std::chrono::milliseconds kWriteDownDelay{50};
}  // namespace

TierActor::TierActor(caf::actor_config& config, ContextPtr context, const char* name, std::uint32_t replica, std::vector<Role> below)
    : ActorBase(config, std::move(context), name), replica_(replica), roles_below_(std::move(below)) {
  set_down_handler([this](const caf::down_msg& down) {
    if (below_ && below_.address() == down.source)
      lose_below();
    else
      on_other_down(down);
  });
}

void TierActor::on_exit() {
  below_ = {};
  asked_.clear();
  flush_.reset();
  static_cast<void>(pins_.take_all());
}

caf::message_handler TierActor::common_handlers() {
  return {
      [this](const Message<messages::PrefixMatched>& message) {
        if (current(message->getEpoch()) && sender() == below_) on_matched(wire::decode(*message));
      },
      [this](const Message<messages::WrittenDown>& message) {
        // Of a predecessor of the tier below: what it was asked for has been let go, and may have been asked for again.
        if (current(message->getEpoch()) && sender() == below_) on_written(wire::decode(*message));
      },
      [this](const Message<messages::ActorStarted>&) {
        connect();
        on_tiers_changed();
      },
      [this](const Message<messages::ActorGivenUp>&) {
        connect();
        on_tiers_changed();
      },
      [this](const Message<messages::FlushTier>& message) { on_flush(message->getGraceMs()); },
      [this](const Message<messages::TierFlushed>& message) {
        if (flush_ && flush_->passed_on && sender() == below_) end_flush(message->getBlocksWritten(), message->getBlocksLost());
      },
      [this](const Message<messages::Pin>& message) { on_pin(message); },
      [this](const Message<messages::Pinned>& message) {
        if (sender() != below_) return;  // those who waited for a predecessor of it have been answered
        if (auto waiting = pins_.take(message->getPin())) tell(waiting->asker, join_pinned(waiting->own, &message));
      },
      [this](WriteAtom) {
        write_timer_ = false;
        ask_write_downs();
      },
      [this](GraceAtom) {
        if (flush_ && now() >= flush_->until) end_flush(0, 0);
      },
  };
}

bool TierActor::group_has_below(messages::GroupReady::Reader group) const {
  return std::any_of(roles_below_.begin(), roles_below_.end(), [&](Role role) {
    return (role == Role::HOST_TIER ? group.getHostBlocks() : group.getDiskBlocks()) > 0 && registry().find(role, replica_);
  });
}

void TierActor::enter(const Message<messages::GroupReady>& group) {
  leave(GroupEpoch{group->getEpoch() - 1});
  group_ = group;
  connect();
}

void TierActor::leave(GroupEpoch lost) {
  epoch_ = GroupEpoch{lost.value + 1};
  group_.reset();
  asked_.clear();
  held_below_.clear();
}

/// With the nearest tier below that there is now.
void TierActor::connect() {
  if (!group_) return;
  caf::actor next;
  for (const Role role : roles_below_)
    if (!next && (role == Role::HOST_TIER ? (*group_)->getHostBlocks() : (*group_)->getDiskBlocks()) > 0)
      next = registry().find(role, replica_);
  if (next != below_) {
    if (below_) lose_below();
    below_ = std::move(next);
    if (below_) {
      monitor(below_);
      tell(below_, *group_);  // one that has started anew knows no group
    }
  }
  if (!below_) tier_below_lost(true);
  write_down();
}

void TierActor::lose_below() {
  demonitor(below_);
  below_ = {};
  held_below_.clear();
  for (auto& [lock, asked] : std::exchange(asked_, {})) tell(asked.asker, wire::encode(asked.answer));
  for (auto& waiting : pins_.take_all()) tell(waiting.asker, join_pinned(waiting.own, nullptr));
  tier_below_lost(false);
  report();
  check_flushed();
}

/// Here, and then in all tiers below; a refusal there only means that the copy there may go.
void TierActor::on_pin(const Message<messages::Pin>& message) {
  std::vector<BlockKey> path;
  for (const auto key : message->getKeys()) path.push_back(wire::decode(key));
  const auto seconds = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count());
  const kv::PinName name{message->getHolder(), message->getPin()};
  expire_pins(seconds);
  PinnedRun own{.pin = name.number, .tier = tier()};
  if (!message->getMeasureOnly()) {
    if (message->getTtlSeconds() == 0)
      unpin(name);
    else if (const auto pinned = pin(name, path, seconds + message->getTtlSeconds()); !pinned)
      own.error = pinned.error();
  }
  const std::uint32_t run = run_of(path);
  own.run = run * kBlockTokens;
  own.path = static_cast<std::uint32_t>(path.size()) * kBlockTokens;
  if (group_) own.bytes = run * (*group_)->getBlockBytes();
  if (!below_ || own.error) return tell(sender(), join_pinned(own, nullptr));
  tell(below_, message);
  pins_.add({sender(), std::move(own)});
}

void TierActor::answer(Asked asked) {
  if (!below_ || asked.below.keys.empty()) {
    tell(asked.asker, wire::encode(asked.answer));
    return;
  }
  tell(below_, wire::encode(asked.below));
  const LockId lock = asked.answer.lock;
  held_below_.insert(lock);
  asked_.emplace(lock, std::move(asked));
}

void TierActor::on_matched(const kv::PrefixMatched& matched) {
  auto asked = asked_.extract(matched.lock);
  if (asked.empty()) return;
  if (matched.host_blocks.empty() && matched.disk_blocks.empty()) held_below_.erase(matched.lock);
  join(asked.mapped(), matched);
  tell(asked.mapped().asker, wire::encode(asked.mapped().answer));
}

void TierActor::release_below(const kv::ReleaseBlocks& release) {
  kv::ReleaseBlocks below{release.epoch, {}, {}};
  for (const LockId lock : release.locks)
    if (held_below_.erase(lock) > 0) below.locks.push_back(lock);
  if (!below.locks.empty()) tell(below_, wire::encode(below));
}

void TierActor::finish_load_below(const kv::LoadFinished& load) {
  if (held_below_.erase(load.lock) > 0) tell(below_, wire::encode(load));
}

void TierActor::write_down() {
  if (below_ && group_ && write_downs().waiting() > 0) {
    if (flush_ || write_downs().waiting() >= std::min(kWriteDownsAtOnce, write_downs().most_asked())) {
      ask_write_downs();
    } else if (!std::exchange(write_timer_, true)) {
      delayed_send(this, kWriteDownDelay, WriteAtom::value);
    }
  }
  check_flushed();
}

void TierActor::ask_write_downs() {
  if (!below_ || !group_) return;
  for (auto wanted = next_write_downs(); !wanted.blocks.empty(); wanted = next_write_downs()) tell(below_, wire::encode(wanted));
  report();
}

void TierActor::on_written(const kv::WrittenDown& written) {
  written_down(written);
  if (flush_) flush_->written += static_cast<std::uint32_t>(written.keys.size());
  report();
  write_down();
}

void TierActor::on_flush(std::uint32_t grace_ms) {
  const std::chrono::milliseconds grace(grace_ms);
  flush_ = Flush{sender(), now() + grace};
  delayed_send(this, grace, GraceAtom::value);
  write_down();
}

std::uint32_t TierActor::unwritten() const { return write_downs().waiting() + static_cast<std::uint32_t>(write_downs().asked().size()); }

/// First what is here goes down; then the tier below flushes.
void TierActor::check_flushed() {
  if (!flush_ || flush_->passed_on) return;
  if (!below_) return end_flush(0, 0);
  if (group_ && unwritten() > 0) return;
  flush_->passed_on = true;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(flush_->until - now()).count();
  tell(below_, Message<messages::FlushTier>::build([&](messages::FlushTier::Builder flush) {
         flush.setGraceMs(static_cast<std::uint32_t>(std::max<std::int64_t>(left, 0)));
       }));
}

void TierActor::end_flush(std::uint32_t written_below, std::uint32_t lost_below) {
  const Flush flush = *std::exchange(flush_, std::nullopt);
  tell(flush.asker, Message<messages::TierFlushed>::build([&](messages::TierFlushed::Builder flushed) {
         flushed.setBlocksWritten(flush.written + written_below);
         flushed.setBlocksLost(unwritten() + lost_below);
       }));
}

}  // namespace troupe::actors
