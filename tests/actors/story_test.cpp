// The stories of the protocols, message by message, with one replica, one shard and the device tier: each test names its story and asserts
// the order in which the messages are sent.
#include "tests/actors/test_company.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {
std::vector<TokenId> letters(std::size_t count, unsigned first = 0) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(3U + 'A' + static_cast<TokenId>((i * 7 + i / 5 + first) % 26));
  return tokens;
}
}  // namespace

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
  const auto& stream = company.stream(id);
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
  CHECK(company.log->back() != "RequestSession>Gateway:TokenDelta");
  CHECK(company.count("RequestSession>Gateway:RequestFinished") == 1);
  CHECK(company.all_blocks_free());
}
