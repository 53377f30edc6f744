#include "tests/actors/tier_bench.h"

#include "actors/device_tier_actor.h"
#include "actors/lower_tier_actor.h"
#include "actors/wire/cache.h"
#include "actors/wire/common.h"
#include "actors/wire/moves.h"
#include "messages/shard_control.capnp.h"
#include "messages/supervision.capnp.h"
#include "runtime/kv/block_key.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <sstream>

namespace troupe::test {
namespace {

namespace wire = actors::wire;
constexpr std::uint32_t kReplica = 1;
constexpr Hash128 kDomain{3, 4};
using World = std::shared_ptr<TierWorld>;

class FakeShard final : public caf::event_based_actor {
 public:
  FakeShard(caf::actor_config& config, World world, std::uint16_t rank)
      : caf::event_based_actor(config), world_(std::move(world)), rank_(rank) {}

  caf::behavior make_behavior() override {
    return {
        [this](const Message<messages::MoveBlocks>& message) {
          const auto moves = wire::decode(*message);
          later(moves.moves.at(0).to, [this, moves, issuer = sender()] { finish(moves, issuer); });
        },
        [this](const Message<messages::ReportInventory>& message) {
          const auto tier = static_cast<Tier>(message->getTier());
          (tier == Tier::kHost ? bytes().host_tier : bytes().disk_tier) = message->getIncarnation();
          later(tier, [this, tier, asker = sender()] { report(tier, asker); });
        },
        [this](int tier) { report(static_cast<Tier>(tier), sender()); },
    };
  }

 private:
  RankBytes& bytes() { return world_->ranks[rank_]; }
  caf::actor sender() { return caf::actor_cast<caf::actor>(current_sender()); }
  void later(Tier tier, std::function<void()> job) {
    if (world_->hold && world_->hold_only.value_or(tier) == tier)
      world_->held.push_back(std::move(job));
    else
      job();
  }

  void finish(const plan::MoveBlocks& moves, const caf::actor& issuer) {
    plan::MovesFinished finished{moves.epoch, moves.move_set, rank_, {}, 10, 0, {}};
    for (std::uint32_t i = 0; i < moves.moves.size(); ++i)
      if (!move(moves, i)) finished.failed.push_back(i);
    finished.bytes = 100 * (moves.moves.size() - finished.failed.size());
    caf::anon_send(issuer, wire::encode(finished));
  }

  bool move(const plan::MoveBlocks& moves, std::uint32_t i) {
    const plan::BlockMove& move = moves.moves[i];
    if (moves.epoch != world_->epoch) return false;
    const auto outlived = [](Incarnation named, Incarnation newest) { return named != 0 && named < newest; };
    if (outlived(moves.host_tier, bytes().host_tier) || outlived(moves.disk_tier, bytes().disk_tier)) return false;
    const auto& from = move.from == Tier::kDevice ? world_->device : move.from == Tier::kHost ? bytes().host : bytes().disk;
    const auto source = from.find(move.source);
    if (source == from.end() || source->second != moves.keys[i]) {
      ++world_->impossible;
      return false;
    }
    auto& to = move.to == Tier::kHost ? bytes().host : bytes().disk;
    to.erase(move.target);
    if (world_->fails && world_->fails(rank_, move)) return false;
    to[move.target] = moves.keys[i];
    return true;
  }

  void report(Tier tier, const caf::actor& asker) {
    std::vector<kv::InventoryEntry> entries;
    for (const auto& [block, key] : tier == Tier::kHost ? bytes().host : bytes().disk) entries.push_back({key, block, 5});
    for (auto& page : wire::encode_inventory(world_->epoch, rank_, tier, entries, 3)) caf::anon_send(asker, std::move(page));
  }

  World world_;
  std::uint16_t rank_;
};

class FakeScheduler final : public caf::event_based_actor {
 public:
  FakeScheduler(caf::actor_config& config, World world) : caf::event_based_actor(config), world_(std::move(world)) {}
  caf::behavior make_behavior() override {
    return {
        [this](const Message<messages::PrefixMatched>& message) { world_->matched.push_back(wire::decode(*message)); },
        [this](const Message<messages::BlocksLeased>& message) { world_->leased.push_back(wire::decode(*message)); },
        [this](const Message<messages::RestartGroup>&) {},
        [this](const Message<messages::DrainNode>&) {
          world_->drain_asked = true;
          send(caf::actor_cast<caf::actor>(current_sender()),
               Message<messages::Drained>::build([](messages::Drained::Builder drained) { drained.setRole(Role::SCHEDULER); }));
        },
    };
  }

 private:
  World world_;
};

actors::ChildSpec lower(const std::shared_ptr<actors::ActorContext>& context, Tier tier) {
  actors::ChildSpec child;
  child.role = tier == Tier::kHost ? Role::HOST_TIER : Role::DISK_TIER;
  child.index = kReplica;
  child.start = [context, tier, successor = std::make_shared<bool>(false)](caf::actor_system& system) {
    return actors::spawn_lower_tier(system, {context, tier, kReplica, std::exchange(*successor, true)});
  };
  child.dependants = {Role::DEVICE_TIER, Role::HOST_TIER};
  child.vital = false;
  return child;
}

}  // namespace

TierBench::TierBench(TierBenchOptions chosen) : options(chosen) {
  world->ranks.resize(options.ranks);
  context->registry = std::make_shared<actors::ActorRegistry>(NodeId{1}, 100);
  context->metrics = metrics;
  context->tap = [this](std::string_view sender, std::uint64_t receiver, std::string_view message) {
    log.push_back(std::string(sender) + ">" + name_of(receiver) + ":" + std::string(message));
  };
  scheduler = system.spawn<FakeScheduler>(world);
  context->registry->put(Role::SCHEDULER, kReplica, scheduler);
  for (std::uint16_t rank = 0; rank < options.ranks; ++rank) {
    shards.push_back(system.spawn<FakeShard>(world, rank));
    context->registry->put(Role::SHARD, rank, shards.back());
  }
  actors::NodeSupervisorDependencies node;
  node.context = context;
  node.limits = options.restarts;
  node.replica = kReplica;
  node.on_drained = [this](std::uint32_t cut) { drained = cut; };
  if (options.disk > 0) node.children.push_back(lower(context, Tier::kDisk));
  if (options.host > 0) node.children.push_back(lower(context, Tier::kHost));
  node.children.push_back({.role = Role::DEVICE_TIER,
                           .index = kReplica,
                           .start =
                               [context = context](caf::actor_system& s) {
                                 return actors::spawn_device_tier(s, {context, kReplica});
                               },
                           .dependants = {},
                           .restarts_group = true});
  supervisor = spawn_node_supervisor(system, std::move(node));
  settle();
  start_epoch();
}

TierBench::~TierBench() {
  world->held.clear();
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
  for (const auto& shard : shards) caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
  settle();
  context->registry->clear();
}

void TierBench::settle() { coordinator().run(); }

void TierBench::advance(milliseconds time) {
  settle();
  for (milliseconds passed{0}; passed < time; passed += milliseconds{10}) {
    coordinator().advance_time(milliseconds{10});
    settle();
  }
}

caf::actor TierBench::find(Role role) const { return context->registry->find(role, role == Role::SHARD ? 0 : kReplica); }

std::string TierBench::name_of(std::uint64_t id) const {
  static constexpr std::pair<Role, const char*> kNames[] = {
      {Role::SCHEDULER, "Scheduler"}, {Role::DEVICE_TIER, "DeviceTier"}, {Role::HOST_TIER, "HostTier"}, {Role::DISK_TIER, "DiskTier"}};
  for (const auto& [role, name] : kNames)
    if (const auto actor = find(role); actor && actor.id() == id) return name;
  for (const auto& shard : shards)
    if (shard.id() == id) return "Shard";
  return "Other";
}

void TierBench::start_epoch() {
  world->epoch = GroupEpoch{world->epoch.value + 1};
  for (const auto& shard : shards) {
    if (find(Role::HOST_TIER)) caf::send_as(find(Role::HOST_TIER), shard, static_cast<int>(Tier::kHost));
    if (find(Role::DISK_TIER)) caf::send_as(find(Role::DISK_TIER), shard, static_cast<int>(Tier::kDisk));
  }
  const auto ready = Message<messages::GroupReady>::build([&](messages::GroupReady::Builder group) {
    group.setReplica(kReplica);
    group.setEpoch(world->epoch.value);
    group.setDeviceBlocks(options.device);
    group.setHostBlocks(options.host);
    group.setDiskBlocks(options.disk);
    auto addresses = group.initShards(options.ranks);
    for (unsigned rank = 0; rank < options.ranks; ++rank) context->registry->write_address(addresses[rank], Role::SHARD, rank);
  });
  for (const Role role : {Role::DISK_TIER, Role::HOST_TIER, Role::DEVICE_TIER})
    if (find(role)) tell(role, ready);
  settle();
}

void TierBench::lose_epoch() {
  world->held.clear();
  world->device.clear();
  const auto lost = Message<messages::GroupLost>::build([&](messages::GroupLost::Builder group) { group.setEpoch(world->epoch.value); });
  for (const Role role : {Role::DEVICE_TIER, Role::HOST_TIER, Role::DISK_TIER})
    if (find(role)) tell(role, lost);
  settle();
}

void TierBench::release_moves() {
  world->hold = false;
  for (auto& job : std::exchange(world->held, {})) job();
  settle();
}

void TierBench::drain(milliseconds grace) {
  caf::anon_send(supervisor, Message<messages::DrainNode>::build(
                                 [&](messages::DrainNode::Builder drain) { drain.setGraceMs(static_cast<std::uint32_t>(grace.count())); }));
  settle();
}

std::vector<BlockId> TierBench::lease(std::uint32_t blocks) {
  world->leased.clear();
  tell(Role::DEVICE_TIER, wire::encode(kv::LeaseBlocks{world->epoch, LeaseId{1}, blocks, true}));
  settle();
  if (world->leased.empty() || world->leased.back().more_follow) advance(milliseconds{1010});  // in vain where moves are held
  std::vector<BlockId> got;
  for (const auto& leased : world->leased)
    for (const BlockRange& range : leased.ranges)
      for (BlockId block = range.first; block < range.first + range.count; ++block) got.push_back(block);
  for (BlockId block : got) world->device.erase(block);  // about to be written over
  return got;
}

void TierBench::give_back(const std::vector<BlockId>& blocks) {
  kv::ReleaseBlocks release{world->epoch, {}, {}};
  for (BlockId block : blocks) release.leased.push_back({block, 1});
  tell(Role::DEVICE_TIER, wire::encode(release));
}

std::vector<BlockKey> TierBench::publish(const std::vector<TokenId>& tokens) {
  kv::PublishBlocks publish;
  publish.epoch = world->epoch;
  publish.lock = LockId{++last_lock_};
  publish.keys = kv::block_keys(kDomain, tokens);
  publish.blocks = lease(static_cast<std::uint32_t>(publish.keys.size()));
  publish.keys.resize(std::min(publish.keys.size(), publish.blocks.size()));
  publish.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(publish.keys.size() * kBlockTokens));
  publish.domain = kDomain;
  for (std::size_t i = 0; i < publish.keys.size(); ++i) world->device[publish.blocks[i]] = publish.keys[i];
  tell(Role::DEVICE_TIER, wire::encode(publish));
  tell(Role::DEVICE_TIER, wire::encode(kv::ReleaseBlocks{world->epoch, {publish.lock}, {}}));
  settle();
  return publish.keys;
}

kv::Match TierBench::ask(const std::vector<TokenId>& tokens) {
  kv::Match match;
  match.epoch = world->epoch;
  match.lock = LockId{++last_lock_};
  match.keys = kv::block_keys(kDomain, tokens);
  match.tokens = tokens;
  match.max_tokens = static_cast<std::uint32_t>(tokens.size()) - 1;
  match.domain = kDomain;
  tell(Role::DEVICE_TIER, wire::encode(match));
  return match;
}

std::optional<kv::PrefixMatched> TierBench::answer_to(const kv::Match& match) const {
  std::optional<kv::PrefixMatched> answer;
  for (const auto& matched : world->matched)
    if (matched.lock == match.lock) {
      CHECK_FALSE(answer);  // once
      answer = matched;
    }
  return answer;
}

kv::PrefixMatched TierBench::match(const std::vector<TokenId>& tokens) {
  const auto asked = ask(tokens);
  settle();
  const auto answer = answer_to(asked);
  REQUIRE(answer);
  check_found(asked, *answer);
  return *answer;
}

void TierBench::check_found(const kv::Match& match, const kv::PrefixMatched& matched) const {
  std::size_t index = 0;
  for (BlockId block : matched.device_blocks) REQUIRE(world->device.at(block) == match.keys.at(index++));
  for (BlockId place : matched.host_blocks) {
    for (const RankBytes& rank : world->ranks) REQUIRE(rank.host.at(place) == match.keys.at(index));
    ++index;
  }
  for (BlockId place : matched.disk_blocks) {
    for (const RankBytes& rank : world->ranks) REQUIRE(rank.disk.at(place) == match.keys.at(index));
    ++index;
  }
  REQUIRE(index * kBlockTokens <= match.max_tokens);
}

void TierBench::finish_load(const kv::PrefixMatched& matched, std::vector<BlockKey> failed) {
  tell(Role::DEVICE_TIER, wire::encode(kv::LoadFinished{matched.epoch, matched.lock, std::move(failed)}));
  settle();
}

void TierBench::release(const kv::PrefixMatched& matched) {
  tell(Role::DEVICE_TIER, wire::encode(kv::ReleaseBlocks{matched.epoch, {matched.lock}, {}}));
  if (matched.tail_tokens > 0) tell(Role::DEVICE_TIER, wire::encode(kv::ReleaseBlocks{matched.epoch, {matched.tail_lock}, {}}));
  settle();
}

bool TierBench::stored(Tier tier, const BlockKey& key) const {
  return std::all_of(world->ranks.begin(), world->ranks.end(), [&](const RankBytes& rank) {
    const auto& places = tier == Tier::kHost ? rank.host : rank.disk;
    return std::any_of(places.begin(), places.end(), [&](const auto& place) { return place.second == key; });
  });
}

std::size_t TierBench::count(const std::string& message) const {
  return static_cast<std::size_t>(std::count(log.begin(), log.end(), message));
}

double TierBench::metric(const std::string& line_start) const {
  std::istringstream text(metrics->prometheus_text());
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(line_start + " ") || line.starts_with(line_start + "{")) return std::stod(line.substr(line.rfind(' ')));
  return -1;
}

bool TierBench::unlocked() const {
  if (metric("troupe:cache_blocks{state=\"locked\"}") > 0) return false;
  const auto locked = [&](const char* tier) {
    return metric("troupe:cache_tier_blocks{state=\"locked\",tier=\"" + std::string(tier) + "\"}");
  };
  return locked("host") <= 0 && locked("disk") <= 0;
}

}  // namespace troupe::test
