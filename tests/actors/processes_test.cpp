// Ranks in processes of their own, as the supervisor and the door see them; the test plays the processes.
#include "actors/actor_base.h"
#include "actors/group_facts.h"
#include "actors/shard_actor.h"
#include "actors/wire/common.h"
#include "messages/error_reasons.h"
#include "messages/membership.capnp.h"
#include "tests/actors/test_company.h"

#include <caf/all.hpp>
#include <catch2/catch.hpp>

#include <set>

using namespace troupe;
using namespace troupe::test;

namespace troupe::test {

/// What a joiner says; changed by tests.
struct Claim {
  std::string cluster = "test", name = "rank0";
  Hash128 digest{8, 9};
  std::uint32_t version = messages::SCHEMA_VERSION;
  std::uint16_t rank = 0;
  Incarnation incarnation = 0;
};

}  // namespace troupe::test
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::test::Claim)
namespace {

struct Joiner final : caf::event_based_actor {
  Joiner(caf::actor_config& config, std::shared_ptr<std::vector<std::string>> heard)
      : event_based_actor(config), heard_(std::move(heard)) {}
  caf::behavior make_behavior() override {
    return {
        [this](const caf::actor& door, const Claim& claim, const caf::actor& shard) {
          send(door, Message<messages::Join>::build([&](messages::Join::Builder join) {
                 join.setCluster(actors::wire::to_text(claim.cluster));
                 join.setSchemaVersion(claim.version);
                 actors::wire::write(claim.digest, join.initConfigDigest());
                 join.setName(actors::wire::to_text(claim.name));
                 join.setIncarnation(claim.incarnation);
                 auto place = join.initReplicas(1)[0];
                 place.setReplica(1);
                 place.initRanks(1).set(0, claim.rank);
               }),
               shard);
        },
        [this](const Message<messages::JoinAccepted>&) { heard_->emplace_back("accepted"); },
        [this](const Message<messages::JoinRefused>& refused) { heard_->push_back(actors::wire::decode(refused->getError()).client_text); },
    };
  }
  std::shared_ptr<std::vector<std::string>> heard_;
};

struct ProcessStage {
  explicit ProcessStage(std::uint16_t ranks = 2) : company(options(ranks)) {
    const auto ask = [this](caf::event_based_actor&, const caf::actor&, const std::function<void(const std::vector<std::string>&)>& done) {
      done(certificate);
    };
    std::vector<std::string> names;
    for (int rank = 0; rank < ranks; ++rank) names.push_back("rank" + std::to_string(rank));
    door = company.company->open_door({"test", {8, 9}, names, ask});
    joiner = company.system.spawn<Joiner>(heard);
    company.advance(milliseconds{10});
  }
  ~ProcessStage() {
    for (auto& shard : shards) caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(joiner, caf::exit_reason::user_shutdown);
    company.settle();
    for (auto& node : nodes) node->registry->clear();
    joiner = door = {};
    shards.clear();
  }
  static TestCompanyOptions options(std::uint16_t ranks) {
    TestCompanyOptions out;
    out.processes = ranks;
    return out;
  }

  /// A process comes up: an actor system's worth of context, and its shard.
  void join(std::uint16_t rank, Incarnation incarnation, const FakeEngineOptions& engine = {}) {
    auto context = std::make_shared<actors::ActorContext>();
    context->registry = std::make_shared<actors::ActorRegistry>(NodeId{rank + 2U}, incarnation);
    context->metrics = std::make_shared<base::Metrics>();
    nodes.push_back(context);
    const auto make = [engine] { return std::make_unique<FakeEngine>(engine, std::make_shared<std::uint64_t>(0)); };
    shards.push_back(actors::spawn_shard(company.system, {context, company.compute, make, {}}));
    Claim claim;
    claim.rank = rank;
    claim.name = "rank" + std::to_string(rank);
    claim.incarnation = incarnation;
    certificate = {claim.name};
    caf::anon_send(joiner, door, claim, shards.back());
    company.settle();
  }
  void join_all(const FakeEngineOptions& engine = {}) {
    const auto now = std::exchange(company.started, {});
    for (const auto& [rank, incarnation] : now) join(rank, incarnation, engine);
    company.advance(milliseconds{10});
  }
  void refuse(const Claim& claim, const std::string& why) {
    heard->clear();
    caf::anon_send(joiner, door, claim, joiner);
    company.settle();
    REQUIRE(heard->size() == 1);
    CHECK_THAT(heard->front(), Catch::Contains(why));
  }

  TestCompany company;
  std::vector<std::string> certificate{"rank0"};
  std::vector<std::shared_ptr<actors::ActorContext>> nodes;
  std::vector<caf::actor> shards;
  caf::actor door, joiner;
  std::shared_ptr<std::vector<std::string>> heard = std::make_shared<std::vector<std::string>>();
};

}  // namespace

TEST_CASE("ranks that join from processes serve, and one that dies is replaced", "[actors][processes]") {
  ProcessStage stage;
  auto& company = stage.company;
  REQUIRE(company.started.size() == 2);
  CHECK_FALSE(company.ready);
  stage.join_all();
  REQUIRE(company.ready);
  const auto prompt = letters(40);
  const auto request = company.submit(TestCompany::completion(prompt, 20));
  company.settle(8);  // in the middle
  CHECK(company.stream(request).finished == 0);
  company.kill(stage.shards[1]);
  company.advance(milliseconds{50});
  REQUIRE(company.started.size() == 1);
  CHECK(company.started[0].first == 1);
  stage.join_all();
  company.run_until_finished(request);
  CHECK(company.stream(request).text[0] == company.text_of(fake_tokens(prompt, 20)));
  CHECK(company.metric("troupe:epoch_restarts_total") == 1);
  CHECK_FALSE(company.fatal);
}

TEST_CASE("a process that ends before it has joined is started again, later each time, then given up", "[actors][processes]") {
  ProcessStage stage(1);
  auto& company = stage.company;
  std::set<Incarnation> incarnations;
  for (int start = 0; start < 6; ++start) {
    REQUIRE(company.started.size() == 1);
    const auto [rank, incarnation] = company.started[0];
    incarnations.insert(incarnation);
    company.started.clear();
    company.company->tell_rank_ended(rank, incarnation, "exit code 1");
    company.company->tell_rank_ended(rank, incarnation, "exit code 1");  // heard twice
    company.advance(milliseconds{start == 0 ? 10 : 4100});
    if (start == 0) {
      CHECK(company.started.empty());  // 250 ms
      company.advance(milliseconds{300});
    }
  }
  CHECK(incarnations.size() == 6);
  CHECK(company.started.empty());
  company.advance(milliseconds{1000});
  CHECK(company.fatal == 3);
}

TEST_CASE("when a company ends, ranks that end with its door are no loss", "[actors][processes]") {
  ProcessStage stage;
  auto& company = stage.company;
  stage.join_all();
  REQUIRE(company.ready);
  std::vector<std::string> ended;
  company.find(Role::REPLICA_SUPERVISOR)->attach_functor([&] { ended.push_back("supervisor"); });
  stage.door->attach_functor([&] { ended.push_back("door"); });
  company.company.reset();
  company.settle();
  CHECK(ended == std::vector<std::string>{"supervisor", "door"});
  CHECK(company.started.empty());
}

TEST_CASE("a process that does not join in time is replaced, and comes too late", "[actors][processes]") {
  ProcessStage stage(1);
  auto& company = stage.company;
  REQUIRE(company.started.size() == 1);
  const auto first = company.started[0];
  company.started.clear();
  company.advance(milliseconds{16'000});
  REQUIRE(company.started.size() == 1);
  stage.join(first.first, first.second);
  CHECK_FALSE(company.ready);
  stage.join_all();
  CHECK(company.ready);
}

TEST_CASE("what cannot be loaded at the start will not load later; what could be loaded is tried again", "[actors][processes]") {
  FakeEngineOptions broken;
  broken.load_result = make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadModelFile, "no such file");
  ProcessStage stage;
  auto& company = stage.company;
  SECTION("at the start") {
    stage.join_all(broken);
    company.advance(milliseconds{1000});
    CHECK(company.fatal == 1);
    CHECK(company.started.empty());
  }
  SECTION("once the group was ready") {
    stage.join_all();
    REQUIRE(company.ready);
    const auto prompt = letters(40);
    const auto request = company.submit(TestCompany::completion(prompt, 20));
    company.settle(8);  // in the middle
    company.kill(stage.shards[1]);
    company.advance(milliseconds{50});
    int failures = 0;
    SECTION("it loads in the end, and the stream goes on") {
      for (; failures < 3; ++failures) {
        REQUIRE(company.started.size() == 1);
        stage.join_all(broken);
        CHECK(company.stream(request).finished == 0);
        company.advance(milliseconds{4100});
      }
      stage.join_all();
      company.run_until_finished(request);
      CHECK(company.stream(request).text[0] == company.text_of(fake_tokens(prompt, 20)));
      CHECK(company.metric("troupe:epoch_restarts_total") == 1);
      CHECK_FALSE(company.fatal);
    }
    SECTION("it never does") {
      for (; failures < 10 && !company.started.empty(); ++failures) {
        stage.join_all(broken);
        company.advance(milliseconds{4100});
      }
      CHECK(failures == 6);
      company.advance(milliseconds{1000});
      CHECK(company.fatal == 3);
      CHECK(company.stream(request).error);
    }
  }
}

TEST_CASE("the door lets in who belongs here, and tells the others why not", "[actors][processes]") {
  ProcessStage stage;
  const auto with = [](auto change) {
    Claim claim;
    change(claim);
    return claim;
  };
  stage.refuse(with([](Claim& claim) { claim.cluster = "other"; }), "another cluster");
  stage.refuse(with([](Claim& claim) { claim.version = 99; }), "version 99");
  stage.refuse(with([](Claim& claim) { claim.digest = {1, 1}; }), "another cluster file");
  stage.refuse(with([](Claim& claim) { claim.rank = 1; }), "rank 1 is not this node's");
  stage.refuse(with([](Claim& claim) { claim.rank = 7; }), "rank 7 is not this node's");
  stage.certificate = {"rank1"};
  stage.refuse({}, "its certificate does not name rank0");
  stage.certificate = {};
  stage.refuse({}, "its certificate does not name rank0");
  CHECK_FALSE(stage.company.ready);
}

TEST_CASE("a group takes the least of what its ranks have, and must agree on how it computes", "[actors][processes]") {
  actors::GroupFacts facts({2, 1}, "auto");
  exec::ShardFacts loaded;
  loaded.device_blocks = 10;
  loaded.block_bytes = 100;
  facts.loaded(0, loaded, "address 0");
  loaded.device_blocks = 8;
  facts.loaded(1, loaded, "address 1");
  actors::wire::ShardReadiness ready;
  ready.facts = {"int8", {1, 1}, {10, 20, 30, 4, 5}};
  ready.host_blocks = 3;
  facts.ready(ready);
  ready.rank = 1;
  ready.host_blocks = 2;
  ready.facts.speed.compute_ns = 11;
  facts.ready(ready);
  REQUIRE(facts.agree());
  CHECK(facts.of_group().codec == "int8");
  CHECK(facts.of_group().device_blocks == 8);
  CHECK(facts.of_group().host_blocks == 2);
  CHECK(facts.of_group().block_bytes == 200);
  SECTION("ranks that differ") {
    ready.facts.numerics = {1, 2};
    facts.ready(ready);
    CHECK_FALSE(facts.agree());
  }
  SECTION("an epoch that differs from the last") {
    ready.facts.codec = "bf16";
    facts.ready(ready);
    ready.rank = 0;
    facts.ready(ready);
    CHECK_FALSE(facts.agree());
  }
}
