#include "tests/runtime/schedule/tiers_below.h"

#include <iterator>
#include <stdexcept>

namespace troupe::schedule::test {
namespace {
void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}
}  // namespace

void TiersBelow::write_down(const kv::PublishBlocks& publish, const FakeShard& shard) {
  for (std::size_t i = 0; i < publish.keys.size(); ++i) {
    if (below(100) < keeps_host) keep(Tier::kHost, publish.keys[i], shard.block(publish.blocks[i]));
    if (below(100) < keeps_disk) keep(Tier::kDisk, publish.keys[i], shard.block(publish.blocks[i]));
    for (auto* kept : {&host_, &disk_})
      if (!kept->empty() && below(100) < forgets) {
        const auto gone = std::next(kept->begin(), below(static_cast<std::uint32_t>(kept->size())));
        bool held = false;
        for (const auto& [lock, keys] : locks_) held = held || keys.contains(gone->first);
        if (!held) kept->erase(gone);
      }
  }
}

void TiersBelow::keep(Tier of, const BlockKey& key, const FakeBlock& bytes) {
  tier(of).try_emplace(key, Kept{bytes, ++last_place_, false});
}
void TiersBelow::damage(Tier of, const BlockKey& key) { tier(of).at(key).damaged = true; }

void TiersBelow::extend(kv::PrefixMatched& reply, const kv::Match& request) {
  std::size_t at = reply.device_blocks.size();
  for (Tier of : {Tier::kHost, Tier::kDisk}) {
    auto& run = of == Tier::kHost ? reply.host_blocks : reply.disk_blocks;
    for (; at < request.keys.size() && (at + 1) * kBlockTokens <= request.max_tokens; ++at) {
      const auto found = tier(of).find(request.keys[at]);
      if (found == tier(of).end()) break;
      run.push_back(found->second.place);
      locks_[request.lock].insert(found->first);
    }
  }
  if (at > reply.device_blocks.size())
    reply.miss = (at + 1) * kBlockTokens > request.max_tokens ? kv::MissReason::kNone : kv::MissReason::kNeverSeen;
  reply.host_tier = 5;
  reply.disk_tier = 6;
}

void TiersBelow::release(const kv::ReleaseBlocks& release) {
  for (LockId lock : release.locks) locks_.erase(lock);
}

void TiersBelow::finish(const kv::LoadFinished& load) {
  require(locks_.contains(load.lock), "a load ends that holds nothing below");
  for (const BlockKey& key : load.failed) {
    require(locks_.at(load.lock).contains(key), "a block failed that was not locked");
    host_.erase(key);
    disk_.erase(key);
    ++forgotten;
  }
  locks_.erase(load.lock);
}

void TiersBelow::end_epoch() {
  locks_.clear();
  moves_.clear();
  targets_.clear();
}

void TiersBelow::accept(const plan::MoveBlocks& moves, const FakeShard& shard) {
  require(!moves.moves.empty() && moves.moves.size() == moves.keys.size() && moves.move_set, "an empty or lame set of moves");
  for (const plan::BlockMove& move : moves.moves) {
    require(move.to == Tier::kDevice && move.from != Tier::kDevice && move.tokens == kBlockTokens, "not a load");
    require(ledger_.leased_out(move.target), "loads into a block that is not leased");
    require(!shard.named_in_flight(move.target), "loads into a block that a plan in flight names");
    require(targets_.insert(move.target).second, "two loads into one block");
  }
  require((moves.moves.front().from == Tier::kHost ? moves.host_tier : moves.disk_tier) != 0, "a load without its tier's incarnation");
  ++sets;
  moves_.push_back(moves);
}

std::uint32_t TiersBelow::move_us() const {
  const auto& moves = moves_.front().moves;
  return static_cast<std::uint32_t>(moves.size()) * (moves.front().from == Tier::kHost ? host_block_us : disk_block_us);
}

plan::MovesFinished TiersBelow::move(FakeShard& shard, bool any) {
  const auto chosen = moves_.begin() + (any ? below(static_cast<std::uint32_t>(moves_.size())) : 0);
  const plan::MoveBlocks moves = *chosen;
  moves_.erase(chosen);
  plan::MovesFinished finished;
  finished.epoch = moves.epoch;
  finished.move_set = moves.move_set;
  for (std::uint32_t i = 0; i < moves.moves.size(); ++i) {
    const plan::BlockMove& move = moves.moves[i];
    targets_.erase(move.target);
    const auto kept = tier(move.from).find(moves.keys[i]);
    require(kept != tier(move.from).end() && kept->second.place == move.source, "loads a block that is not there");
    if (kept->second.damaged || below(100) < fails) {
      finished.failed.push_back(i);
      continue;
    }
    shard.write_block(move.target, kept->second.bytes);
    ++blocks_moved;
  }
  return finished;
}

}  // namespace troupe::schedule::test
