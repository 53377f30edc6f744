// The Shard actor between its supervisor, the tiers and a scheduler: what it answers to moves of blocks and to questions for its stores.
#include "actors/shard_actor.h"

#include "actors/actor_config.h"
#include "actors/wire/cache.h"
#include "actors/wire/moves.h"
#include "actors/wire/plan.h"
#include "messages/caf_types.h"
#include "messages/shard_control.capnp.h"
#include "tests/actors/test_company.h"

#include <caf/all.hpp>
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::uint32_t kReplica = 4;
constexpr std::uint16_t kRank = 2;

/// What came, in order: "Name", with the decoded ones beside it.
struct Heard {
  std::vector<std::string> names;
  std::vector<plan::MovesFinished> moves;
  std::vector<kv::InventoryReported> inventories;
  std::vector<plan::ForwardResult> results;
  std::uint32_t host_blocks = 0, disk_blocks = 0;
  std::uint64_t block_bytes = 0;
};

/// Supervisor, scheduler and tiers in one.
class Others final : public caf::event_based_actor {
 public:
  Others(caf::actor_config& config, std::shared_ptr<Heard> heard) : caf::event_based_actor(config), heard_(std::move(heard)) {}
  caf::behavior make_behavior() override {
    return {
        [](const Message<messages::LoadProgress>&) {},
        [this](const Message<messages::ShardLoaded>& message) {
          heard_->names.emplace_back("ShardLoaded");
          heard_->host_blocks = message->getHostBlocks();
          heard_->disk_blocks = message->getDiskBlocks();
          heard_->block_bytes = message->getBlockBytes();
        },
        [this](const Message<messages::ShardReady>&) { heard_->names.emplace_back("ShardReady"); },
        [this](const Message<messages::EpochLeft>&) { heard_->names.emplace_back("EpochLeft"); },
        [this](const Message<messages::ShardFailed>&) { heard_->names.emplace_back("ShardFailed"); },
        [this](const Message<messages::InventoryReported>& message) {
          heard_->names.emplace_back("InventoryReported");
          heard_->inventories.push_back(actors::wire::decode(*message));
        },
        [this](const Message<messages::MovesFinished>& message) {
          heard_->names.emplace_back("MovesFinished");
          heard_->moves.push_back(actors::wire::decode(*message));
        },
        [this](const Message<messages::ForwardResult>& message) { heard_->results.push_back(actors::wire::decode(*message)); },
    };
  }

 private:
  std::shared_ptr<Heard> heard_;
};

struct ShardStage {
  explicit ShardStage(std::uint64_t host_blocks, bool with_tier_actor = true) {
    context->registry = std::make_shared<actors::ActorRegistry>(NodeId{1}, 1);
    context->metrics = std::make_shared<base::Metrics>();
    others = system.spawn<Others>(heard);
    context->registry->put(Role::SCHEDULER, kReplica, others);
    if (with_tier_actor) context->registry->put(Role::HOST_TIER, kReplica, others);
    FakeEngineOptions engine;
    engine.blocks = 16;
    engine.stores_by_hand = stores;
    shard = actors::spawn_shard(
        system, {context, compute, [engine] { return std::make_unique<FakeEngine>(engine, std::make_shared<std::uint64_t>(0)); }, {}});
    tell(Message<messages::LoadShard>::build([&](messages::LoadShard::Builder load) {
      load.setReplica(kReplica);
      load.setRank(kRank);
      load.setTensorRanks(1);
      load.setStages(kRank + 1);  // it is the last: it tells the results
      load.setHostBytes(host_blocks * FakeCache::kBytes);
    }));
    settle();
  }
  ~ShardStage() {
    caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
    shard = {};
    settle();
    context->registry->clear();
    caf::anon_send_exit(others, caf::exit_reason::user_shutdown);
    others = {};
    settle();
  }

  template <class Schema>
  void tell(Message<Schema> message) {
    caf::send_as(others, shard, std::move(message));
  }
  void run_actors() { dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()).run(); }
  void settle() {
    do {
      run_actors();
      while (*stores != nullptr && (*stores)->run_one()) run_actors();
    } while (compute->run_one());
  }
  void enter(std::uint32_t number) {
    epoch = number;
    step = 0;
    tell(Message<messages::EnterEpoch>::build([&](messages::EnterEpoch::Builder enter) {
      enter.setEpoch(number);
      context->registry->write_address(enter.initScheduler(), Role::SCHEDULER, kReplica);
    }));
    settle();
  }
  void leave() {
    tell(Message<messages::LeaveEpoch>::build([&](messages::LeaveEpoch::Builder leave) { leave.setEpoch(epoch); }));
  }
  plan::MoveBlocks set(Tier from, Tier to, BlockId source, BlockId target) const {
    plan::MoveBlocks moves;
    moves.epoch = {epoch};
    moves.move_set = {77};
    moves.moves = {{source, target, kBlockTokens, from, to}};
    moves.keys = {kKey};
    return moves;
  }
  void move(const plan::MoveBlocks& moves) { tell(actors::wire::encode(moves)); }
  /// A sequence of its own on `blocks`, of which `cached` positions are there; the token drawn behind `prompt`.
  TokenId draw(const std::vector<TokenId>& prompt, const std::vector<BlockId>& blocks, std::uint32_t cached) {
    plan::ForwardPlan plan;
    plan.epoch = {epoch};
    plan.step = {++step};
    if (step > 1) plan.dropped = {{0}};
    plan::AddedSequence added;
    added.length = cached;
    added.blocks = blocks;
    plan.added = {added};
    plan.tokens.assign(prompt.begin() + cached, prompt.end());
    plan.runs = {{{0}, cached, static_cast<std::uint32_t>(plan.tokens.size()), 0}};
    plan.samples = {{plan.runs[0].rows - 1, {0}, plan::kDraw, plan::kNoLogprobs, 0}};
    tell(actors::wire::encode(plan));
    settle();
    REQUIRE_FALSE(heard->results.empty());
    return heard->results.back().tokens.at(0);
  }

  static constexpr BlockKey kKey{8, 9};
  actors::ActorConfig config{actors::ActorConfig::Testing{}};
  caf::actor_system system{config};
  std::shared_ptr<actors::ActorContext> context = std::make_shared<actors::ActorContext>();
  std::shared_ptr<ManualCompute> compute = std::make_shared<ManualCompute>();
  std::shared_ptr<exec::RankStores*> stores = std::make_shared<exec::RankStores*>(nullptr);
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  caf::actor others, shard;
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a shard writes blocks down, and reads them in the next epoch into other places") {
  ShardStage stage(10);
  CHECK(stage.heard->host_blocks == 10);
  CHECK(stage.heard->disk_blocks == 0);
  CHECK(stage.heard->block_bytes == FakeCache::kBytes);
  stage.enter(1);
  CHECK(stage.heard->names == Names{"ShardLoaded", "InventoryReported", "ShardReady"});
  CHECK(stage.heard->inventories.at(0).entries.empty());
  CHECK(stage.heard->inventories.at(0).tier == Tier::kHost);
  const auto prompt = letters(40);
  const TokenId wanted = stage.draw(prompt, {0, 1}, 0);
  stage.move(stage.set(Tier::kDevice, Tier::kHost, 0, 7));
  stage.settle();
  REQUIRE(stage.heard->moves.size() == 1);
  const auto written = stage.heard->moves[0];
  CHECK(written.failed.empty());
  CHECK(written.epoch.value == 1);
  CHECK(written.move_set.value == 77);
  CHECK(written.rank == kRank);
  CHECK(written.bytes == FakeCache::kBytes);

  stage.leave();
  stage.settle();
  stage.enter(2);
  REQUIRE(stage.heard->inventories.size() == 2);
  CHECK(stage.heard->inventories[1].epoch.value == 2);
  REQUIRE(stage.heard->inventories[1].entries.size() == 1);
  CHECK(stage.heard->inventories[1].entries[0].block == 7);
  CHECK(stage.heard->inventories[1].entries[0].key == ShardStage::kKey);
  stage.move(stage.set(Tier::kHost, Tier::kDevice, 7, 5));
  stage.settle();
  CHECK(stage.heard->moves.back().failed.empty());
  CHECK(stage.draw(prompt, {5, 9}, 32) == wanted);
  // A plan that is given the block anew makes it nobody's: it cannot be taken for the old one.
  stage.draw(letters(40, 3), {5, 9}, 0);
  stage.move(stage.set(Tier::kDevice, Tier::kHost, 5, 1));
  stage.settle();
  CHECK(stage.heard->moves.back().failed.empty());  // vouched for anew, by whoever sent this
}

TEST_CASE("moves run beside a step, and all end before the epoch is left") {
  ShardStage stage(10);
  stage.enter(1);
  stage.draw(letters(40), {0, 1}, 0);
  stage.heard->names.clear();
  // The compute thread has a job that it does not begin; moves do not wait for it.
  plan::ForwardPlan plan;
  plan.epoch = {1};
  plan.step = {stage.step + 1};
  stage.tell(actors::wire::encode(plan));
  stage.move(stage.set(Tier::kDevice, Tier::kHost, 0, 3));
  stage.run_actors();
  REQUIRE(stage.compute->waiting() == 1);
  while ((*stage.stores)->run_one()) stage.run_actors();
  CHECK(stage.heard->names == Names{"MovesFinished"});
  CHECK(stage.heard->moves.back().failed.empty());

  stage.move(stage.set(Tier::kHost, Tier::kDevice, 3, 8));  // does not begin
  stage.leave();
  stage.run_actors();
  stage.move(stage.set(Tier::kHost, Tier::kDevice, 3, 9));  // comes too late
  stage.run_actors();
  CHECK(stage.heard->names == Names{"MovesFinished", "MovesFinished"});
  CHECK(stage.heard->moves.back().failed.size() == 1);
  while (stage.compute->run_one()) stage.run_actors();
  CHECK(stage.heard->names == Names{"MovesFinished", "MovesFinished", "MovesFinished", "EpochLeft"});
  CHECK(stage.heard->moves.back().failed.size() == 1);
  // Of an epoch that is over or has not begun: nobody waits for an answer.
  const auto old = stage.set(Tier::kHost, Tier::kDevice, 3, 8);
  stage.enter(2);
  stage.heard->names.clear();
  stage.move(old);
  auto early = old;
  early.epoch = {3};
  stage.move(early);
  stage.settle();
  CHECK(stage.heard->names.empty());
}

TEST_CASE("a restarted tier asks what is there, and moves of its past life fail") {
  ShardStage stage(10, false);
  stage.enter(1);
  CHECK(stage.heard->inventories.empty());  // nobody played the role
  stage.draw(letters(40), {0, 1}, 0);
  auto moves = stage.set(Tier::kDevice, Tier::kHost, 0, 3);
  moves.host_tier = 50;
  moves.background = true;
  stage.move(moves);
  stage.tell(actors::wire::report_inventory(Tier::kHost, 60));
  stage.tell(actors::wire::report_inventory(Tier::kDisk, 60));
  stage.move(moves);
  stage.run_actors();
  CHECK(stage.heard->moves.at(0).failed.size() == 1);  // the later one, at once
  stage.settle();
  REQUIRE(stage.heard->moves.size() == 2);
  CHECK(stage.heard->moves[1].failed.empty());
  REQUIRE(stage.heard->inventories.size() == 1);  // a tier that is not there tells nothing
  CHECK(stage.heard->inventories[0].entries.size() == 1);
  CHECK(stage.heard->names.back() == "InventoryReported");
}

TEST_CASE("a shard without stores fails all moves") {
  ShardStage stage(0);
  CHECK(stage.heard->host_blocks == 0);
  stage.enter(1);
  CHECK(stage.heard->inventories.empty());
  auto moves = stage.set(Tier::kDevice, Tier::kHost, 0, 3);
  moves.moves.push_back(moves.moves[0]);
  moves.keys.clear();
  stage.move(moves);
  stage.tell(actors::wire::report_inventory(Tier::kHost, 60));
  stage.settle();
  REQUIRE(stage.heard->moves.size() == 1);
  CHECK(stage.heard->moves[0].failed == std::vector<std::uint32_t>{0, 1});
  CHECK(stage.heard->inventories.empty());
}

TEST_CASE("a shard that dies ends its moves, and nobody is told twice") {
  ShardStage stage(10);
  stage.enter(1);
  stage.move(stage.set(Tier::kDevice, Tier::kHost, 0, 3));
  stage.run_actors();
  caf::anon_send_exit(stage.shard, caf::exit_reason::kill);
  stage.settle();
  CHECK(*stage.stores == nullptr);
  CHECK(stage.heard->moves.size() == 1);
}
