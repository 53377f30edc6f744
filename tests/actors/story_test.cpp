// The stories of the protocols, message by message, with one replica, one shard and the device tier: each test names its story and asserts
// the order in which the messages are sent.
#include "tests/actors/test_company.h"

#include "messages/error_reasons.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::test;

TEST_CASE("start: load, enter, ready, subscribe") {
  TestCompany company;
  REQUIRE(company.ready);
  CHECK(
      company.saw({"ReplicaSupervisor>Shard:LoadShard", "Compute>ReplicaSupervisor:LoadProgress", "Compute>ReplicaSupervisor:ShardLoaded",
                   "ReplicaSupervisor>Shard:EnterEpoch", "Compute>ReplicaSupervisor:ShardReady", "ReplicaSupervisor>DeviceTier:GroupReady",
                   "ReplicaSupervisor>Scheduler:GroupReady", "Scheduler>Router:ReplicaDescribed", "Scheduler>Router:ReplicaLoad"}));
  REQUIRE_FALSE(company.directory->empty());
  CHECK(company.directory->back() == "tiny 1");
}

TEST_CASE("story: plain chat") {
  TestCompany company;
  company.mark();
  const auto prompt = letters(70);
  const auto id = company.submit(TestCompany::completion(prompt, 12));
  company.run_until_finished(id);
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  CHECK_FALSE(stream.error);
  CHECK(stream.admitted == 1);
  CHECK(stream.text.at(0) == company.text_of(fake_tokens(prompt, 12)));
  CHECK(stream.prompt_tokens == 70);
  CHECK(stream.output_tokens == 12);
  CHECK(stream.reasons == std::vector{messages::FinishReason::LENGTH});
  CHECK(company.saw({"Gateway>RequestSession:SubmitRequest", "RequestSession>Router:ChooseReplica", "Router>RequestSession:ReplicaChosen",
                     "RequestSession>Scheduler:AdmitSequence", "Scheduler>RequestSession:SequenceAdmitted",
                     "RequestSession>Gateway:RequestAdmitted", "Scheduler>Shard:ForwardPlan", "Compute>Scheduler:ForwardResult",
                     "Scheduler>DeviceTier:PublishBlocks", "Scheduler>RequestSession:TokensGenerated", "RequestSession>Gateway:TokenDelta",
                     "Scheduler>RequestSession:TokensGenerated", "Scheduler>DeviceTier:ReleaseBlocks"}));
  CHECK(company.saw({"Scheduler>DeviceTier:Match", "DeviceTier>Scheduler:PrefixMatched", "Scheduler>Shard:ForwardPlan"}));
  CHECK(company.count("RequestSession>Gateway:RequestFinished") == 1);
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: a second turn finds the first one's blocks") {
  TestCompany company;
  const auto prompt = letters(100);
  const auto first = company.submit(TestCompany::completion(prompt, 4));
  company.run_until_finished(first);
  auto longer = prompt;
  for (auto token : letters(30, 5)) longer.push_back(token);
  const auto second = company.submit(TestCompany::completion(longer, 4));
  company.run_until_finished(second);
  REQUIRE(company.stream(second).cache);
  CHECK(company.stream(second).cache->tokens.device >= 96);
  CHECK(company.stream(second).text.at(0) == company.text_of(fake_tokens(longer, 4)));
}

TEST_CASE("story: fork inside a block") {
  TestCompany company;
  auto shared = letters(45);  // one full block and 13 positions of the next
  const auto first = company.submit(TestCompany::completion(shared, 8));
  company.run_until_finished(first);
  CHECK(company.all_blocks_free());
  company.mark();
  auto branch = shared;
  for (auto token : letters(10, 3)) branch.push_back(token);
  const auto second = company.submit(TestCompany::completion(branch, 8));
  company.run_until_finished(second);
  CHECK(company.stream(second).text.at(0) == company.text_of(fake_tokens(branch, 8)));
  REQUIRE(company.stream(second).cache);
  CHECK(company.stream(second).cache->tokens.device >= 45);
  CHECK(company.saw({"Scheduler>DeviceTier:Match", "DeviceTier>Scheduler:PrefixMatched", "Scheduler>Shard:ForwardPlan",
                     "Compute>Scheduler:ForwardResult", "Scheduler>DeviceTier:ReleaseBlocks"}));
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: n siblings") {
  for (std::size_t length : {std::size_t{64}, std::size_t{75}}) {
    TestCompany company;
    const auto prompt = letters(length);
    auto request = TestCompany::completion(prompt, 9);
    request.choices = 3;
    request.sampling.temperature = 1;
    request.sampling.seed = 42;
    company.mark();
    const auto id = company.submit(request);
    company.run_until_finished(id);
    auto& stream = company.stream(id);
    REQUIRE(stream.finished == 1);
    CHECK(company.count("RequestSession>Scheduler:AdmitSequence") == 1);
    CHECK(stream.admitted == 1);
    for (std::uint16_t choice = 0; choice < 3; ++choice)
      CHECK(stream.text.at(choice) == company.text_of(fake_tokens(prompt, 9, 42, choice)));
    CHECK(stream.output_tokens == 27);
    CHECK(stream.reasons.size() == 3);
    CHECK(company.all_blocks_free());
  }
}

TEST_CASE("story: n siblings, one ended by a stop string") {
  TestCompany company;
  const auto prompt = letters(40);
  const auto expected = company.text_of(fake_tokens(prompt, 30, 1, 1));
  auto request = TestCompany::completion(prompt, 30);
  request.choices = 2;
  request.sampling.seed = 1;
  request.stops = {expected.substr(6, 4)};
  company.mark();
  const auto id = company.submit(request);
  company.run_until_finished(id);
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  const auto cut = expected.find(request.stops[0]);
  CHECK(stream.text.at(1) == expected.substr(0, cut));
  CHECK(stream.reasons.at(1) == messages::FinishReason::STOP);
  CHECK(stream.stops.at(1) == request.stops[0]);
  CHECK(company.saw(
      {"Scheduler>RequestSession:TokensGenerated", "RequestSession>Scheduler:AbortSequence", "RequestSession>Gateway:RequestFinished"}));
  CHECK(stream.output_tokens == stream.text.at(0).size() + cut);  // tokens past the stop are not billed
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: preemption and resume") {
  TestCompanyOptions options;
  options.engine.blocks = 10;
  TestCompany company(options);
  company.mark();
  std::vector<RequestId> ids;
  std::vector<std::vector<TokenId>> prompts;
  for (unsigned i = 0; i < 4; ++i) {
    prompts.push_back(letters(40, 100 + 31 * i));
    ids.push_back(company.submit(TestCompany::completion(prompts.back(), 100)));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    company.run_until_finished(ids[i]);
    auto& stream = company.stream(ids[i]);
    REQUIRE(stream.finished == 1);
    REQUIRE_FALSE(stream.error);
    CHECK(stream.admitted == 1);
    CHECK(stream.text.at(0) == company.text_of(fake_tokens(prompts[i], 100)));
  }
  CHECK(company.metric("vllm:num_preemptions_total") > 0);
  CHECK(company.count("RequestSession>Scheduler:AdmitSequence") == 4);  // the sessions noticed nothing
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: client disconnect") {
  TestCompany company;
  const auto id = company.submit(TestCompany::completion(letters(50), 1000));
  company.settle(8);
  REQUIRE(company.stream(id).admitted == 1);
  REQUIRE(company.stream(id).finished == 0);
  company.mark();
  company.cancel(id, true);
  company.settle();
  CHECK(company.saw({"RequestSession>Scheduler:AbortSequence", "Scheduler>DeviceTier:ReleaseBlocks"}));
  CHECK(company.count("RequestSession>Gateway:RequestFinished") == 0);
  CHECK(company.count("Compute>Scheduler:ForwardResult") <= 3);  // free within two steps
  CHECK(company.compute->waiting() == 0);
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: shard group restart") {
  TestCompanyOptions options;
  options.engine.before_step = [](std::uint64_t step, const std::atomic<bool>&) {
    if (step == 7) throw std::runtime_error("a fault");
  };
  TestCompany company(options);
  company.mark();
  const auto prompt = letters(60);
  const auto id = company.submit(TestCompany::completion(prompt, 20));
  company.run_until_finished(id);
  CHECK(
      company.saw({"Compute>Shard:ShardFailed", "Shard>ReplicaSupervisor:ShardFailed", "ReplicaSupervisor>Scheduler:GroupLost",
                   "ReplicaSupervisor>DeviceTier:GroupLost", "ReplicaSupervisor>Shard:LeaveEpoch", "Compute>ReplicaSupervisor:EpochLeft",
                   "ReplicaSupervisor>Shard:EnterEpoch", "Compute>ReplicaSupervisor:ShardReady", "ReplicaSupervisor>DeviceTier:GroupReady",
                   "ReplicaSupervisor>Scheduler:GroupReady", "Scheduler>DeviceTier:LeaseBlocks", "Scheduler>Shard:ForwardPlan",
                   "Scheduler>RequestSession:TokensGenerated", "RequestSession>Gateway:RequestFinished"}));
  CHECK(company.count("RequestSession>Scheduler:AdmitSequence") == 1);  // same attempt
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  CHECK_FALSE(stream.error);
  CHECK(stream.admitted == 1);
  CHECK(stream.text.at(0) == company.text_of(fake_tokens(prompt, 20)));
  CHECK(company.metric("troupe:group_epoch") == 2);
  CHECK(company.metric("troupe:epoch_restarts_total") == 1);
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: scheduler death") {
  TestCompany company;
  const auto prompt = letters(60);
  const auto id = company.submit(TestCompany::completion(prompt, 40));
  company.settle(12);
  REQUIRE(company.stream(id).admitted == 1);
  REQUIRE(company.stream(id).finished == 0);
  company.mark();
  company.kill(company.find(Role::SCHEDULER));
  company.run_until_finished(id);
  CHECK(
      company.saw({"NodeSupervisor>Router:ActorStarted", "NodeSupervisor>ReplicaSupervisor:RestartGroup",
                   "ReplicaSupervisor>Scheduler:GroupLost", "ReplicaSupervisor>DeviceTier:GroupLost", "ReplicaSupervisor>Shard:LeaveEpoch",
                   "Compute>ReplicaSupervisor:EpochLeft", "ReplicaSupervisor>Shard:EnterEpoch", "Compute>ReplicaSupervisor:ShardReady",
                   "ReplicaSupervisor>DeviceTier:GroupReady", "ReplicaSupervisor>Scheduler:GroupReady", "Scheduler>Router:ReplicaDescribed",
                   "RequestSession>Router:ChooseReplica", "Router>RequestSession:ReplicaChosen", "RequestSession>Scheduler:AdmitSequence",
                   "Scheduler>RequestSession:TokensGenerated", "RequestSession>Gateway:RequestFinished"}));
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  CHECK_FALSE(stream.error);
  CHECK(stream.admitted == 1);  // no second RequestAdmitted
  CHECK(stream.text.at(0) == company.text_of(fake_tokens(prompt, 40)));
  CHECK(stream.output_tokens == 40);
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: overload refusal") {
  TestCompanyOptions options;
  options.scheduler.max_queued_requests = 2;
  options.scheduler.max_sequences = 1;
  TestCompany company(options);
  company.mark();
  std::vector<RequestId> ids;
  for (unsigned i = 0; i < 6; ++i) ids.push_back(company.submit(TestCompany::completion(letters(33, i * 40), 30)));
  company.settle(0);
  std::size_t refused = 0;
  for (auto id : ids)
    if (auto& stream = company.stream(id); stream.finished == 1) {
      ++refused;
      REQUIRE(stream.error);
      CHECK(stream.error->error_class == ErrorClass::kOverloaded);
      CHECK(stream.error->retry_after_ms > 0);
      CHECK(stream.admitted == 0);  // no status line was written
    }
  CHECK(refused >= 3);
  CHECK(company.saw({"RequestSession>Scheduler:AdmitSequence", "Scheduler>RequestSession:AdmissionRefused",
                     "RequestSession>Router:ChooseReplica", "Router>RequestSession:ReplicaRefused",
                     "RequestSession>Gateway:RequestFinished"}));
  for (auto id : ids) {
    company.run_until_finished(id);
    CHECK(company.stream(id).finished == 1);
  }
  CHECK(company.all_blocks_free());
}

TEST_CASE("story: drain") {
  TestCompany company;
  const auto prompt = letters(50);
  const auto id = company.submit(TestCompany::completion(prompt, 30));
  company.settle(6);
  company.mark();
  company.company->drain(milliseconds{10'000});
  company.settle(3);
  CHECK_FALSE(company.drained);
  company.run_until_finished(id);
  company.settle();
  CHECK(company.stream(id).text.at(0) == company.text_of(fake_tokens(prompt, 30)));
  CHECK(company.saw({"NodeSupervisor>Gateway:DrainNode", "RequestSession>Gateway:RequestFinished", "Gateway>NodeSupervisor:Drained",
                     "NodeSupervisor>Scheduler:DrainNode", "Scheduler>Router:ReplicaLoad", "Scheduler>NodeSupervisor:Drained"}));
  REQUIRE(company.drained);
  CHECK(*company.drained == 0);
  CHECK(company.directory->back() == "tiny 0");
  const auto late = company.submit(TestCompany::completion(prompt, 3));
  company.run_until_finished(late);
  REQUIRE(company.stream(late).error);
  CHECK(company.stream(late).error->reason == ErrorReason::kDraining);
}
