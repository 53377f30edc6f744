// What a client sees when something dies (one test a row of the failure table): the same tokens after a pause, or one terminal error;
// never a silent end, never a leaked block.
#include "messages/error_reasons.h"
#include "tests/actors/test_company.h"

#include <catch2/catch.hpp>

#include <random>

using namespace troupe;
using namespace troupe::test;

namespace {

/// A stream under way: admitted, some tokens out, not finished.
RequestId start_stream(TestCompany& company, const std::vector<TokenId>& prompt, std::uint32_t max_tokens) {
  const auto id = company.submit(TestCompany::completion(prompt, max_tokens));
  company.settle(10);
  REQUIRE(company.stream(id).admitted == 1);
  REQUIRE(company.stream(id).finished == 0);
  REQUIRE_FALSE(company.stream(id).text[0].empty());
  return id;
}

void check_undisturbed(TestCompany& company, RequestId id, const std::vector<TokenId>& prompt, std::uint32_t max_tokens) {
  company.run_until_finished(id);
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  CHECK_FALSE(stream.error);
  CHECK(stream.admitted == 1);
  CHECK(stream.text[0] == company.text_of(fake_tokens(prompt, max_tokens)));
  CHECK(stream.output_tokens == max_tokens);
  CHECK(company.all_blocks_free());
}

}  // namespace

TEST_CASE("death of an actor under a running stream") {
  const auto role = GENERATE(Role::SHARD, Role::DEVICE_TIER, Role::SCHEDULER, Role::REPLICA_SUPERVISOR, Role::ROUTER, Role::SESSION_STORE);
  CAPTURE(static_cast<int>(role));
  TestCompany company;
  const auto prompt = letters(70);
  const auto id = start_stream(company, prompt, 60);
  company.kill(company.find(role));
  check_undisturbed(company, id, prompt, 60);
  CHECK_FALSE(company.fatal);
  // The company is whole again.
  const auto next = company.submit(TestCompany::completion(letters(40, 9), 5));
  check_undisturbed(company, next, letters(40, 9), 5);
}

TEST_CASE("death of a session: the gateway hears of it, its blocks are free") {
  TestCompany company;
  const auto id = start_stream(company, letters(70), 1000);
  company.kill(company.stream(id).session);
  company.settle();
  CHECK(company.stream(id).session_died);
  CHECK(company.stream(id).finished == 0);
  CHECK(company.compute->waiting() == 0);
  CHECK(company.all_blocks_free());
}

TEST_CASE("death of the gateway: its sessions abort and go") {
  TestCompany company;
  start_stream(company, letters(70), 1000);
  company.mark();
  company.kill(company.gateway);
  company.settle();
  CHECK(company.saw({"RequestSession>Scheduler:AbortSequence"}));
  CHECK(company.all_blocks_free());
}

TEST_CASE("a step past the watchdog that obeys the abort flag") {
  TestCompany company;
  const auto prompt = letters(70);
  const auto id = start_stream(company, prompt, 60);
  REQUIRE(company.compute->waiting() > 0);
  company.mark();
  company.advance_stalled(milliseconds{1500});  // the watchdog is 1 s
  CHECK(
      company.saw({"Shard>ReplicaSupervisor:ShardFailed", "ReplicaSupervisor>Scheduler:GroupLost", "ReplicaSupervisor>Shard:LeaveEpoch"}));
  CHECK(company.count("ReplicaSupervisor>Shard:EnterEpoch") == 0);  // not before the old thread has returned
  check_undisturbed(company, id, prompt, 60);
  CHECK_FALSE(company.fatal);
}

TEST_CASE("a stall that ignores the abort flag ends the process, with terminal errors first") {
  TestCompany company;
  const auto id = start_stream(company, letters(70), 60);
  company.advance_stalled(milliseconds{2400});
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  REQUIRE(stream.error);
  CHECK(stream.error->reason == ErrorReason::kWatchdog);
  company.advance_stalled(milliseconds{1000});
  REQUIRE(company.fatal);
  CHECK(*company.fatal == 3);
  const auto late = company.submit(TestCompany::completion(letters(10), 3));
  company.advance_stalled(milliseconds{200});
  CHECK(company.stream(late).error);
}

TEST_CASE("an idle shard is not timed") {
  TestCompany company;
  company.advance(milliseconds{5000});
  company.mark();
  company.advance_stalled(milliseconds{5000});
  CHECK(company.sent().empty());
  CHECK_FALSE(company.fatal);
}

TEST_CASE("a model that does not load ends the process with its reason") {
  TestCompanyOptions options;
  options.engine.load_result = make_error(ErrorClass::kCorrupted, ErrorReason::kBadModelFile, "tiny.gguf: bad magic");
  TestCompany company(options);
  const auto id = company.submit(TestCompany::completion(letters(10), 3));
  company.advance(milliseconds{1000});
  REQUIRE(company.fatal);
  CHECK(*company.fatal == 1);
  CHECK_FALSE(company.ready);
  company.run_until_finished(id);
  CHECK(company.stream(id).error);
}

TEST_CASE("a request that keeps killing the scheduler runs out of retries") {
  TestCompanyOptions options;
  options.actors.restarts = 10;
  options.retry_budget = 2;
  TestCompany company(options);
  const auto id = start_stream(company, letters(40), 200);
  for (int i = 0; i < 2; ++i) {
    company.kill(company.find(Role::SCHEDULER));
    for (int j = 0; j < 30; ++j) {
      company.advance_stalled(milliseconds{10});
      company.settle(1);
    }
    REQUIRE(company.stream(id).finished == 0);
  }
  company.kill(company.find(Role::SCHEDULER));
  company.settle(0);
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  REQUIRE(stream.error);
  CHECK(stream.error->reason == ErrorReason::kRetryBudget);
}

TEST_CASE("an actor that keeps dying is given up, with terminal errors") {
  TestCompany company;  // two restarts in a minute
  const auto id = start_stream(company, letters(40), 1000);
  for (int i = 0; i < 3; ++i) {
    company.kill(company.find(Role::SCHEDULER));
    company.settle(5);
  }
  company.advance(milliseconds{400});
  REQUIRE(company.stream(id).finished == 1);
  CHECK(company.stream(id).error);
  company.advance(milliseconds{500});
  REQUIRE(company.fatal);
}

TEST_CASE("fifty faults mid-stream change no token") {
  TestCompanyOptions options;
  int faults = 0;
  options.engine.before_step = [&faults](std::uint64_t step, const std::atomic<bool>&) {
    if (step % 4 == 0 && faults < 50) {
      ++faults;
      throw std::runtime_error("a fault");
    }
  };
  TestCompany company(options);
  std::vector<RequestId> ids;
  std::vector<std::vector<TokenId>> prompts;
  for (unsigned i = 0; i < 4; ++i) {
    prompts.push_back(letters(20 + 17 * i, i));
    ids.push_back(company.submit(TestCompany::completion(prompts.back(), 100)));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) check_undisturbed(company, ids[i], prompts[i], 100);
  CHECK(faults == 50);
  CHECK(company.metric("troupe:epoch_restarts_total") == 50);
}

TEST_CASE("random faults: exactly one terminal event, and the right tokens where it is a good one") {
  for (unsigned seed = 1; seed <= 25; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto chance = [&](unsigned one_in) { return random() % one_in == 0; };
    TestCompanyOptions options;
    options.actors.restarts = 1000;
    options.engine.blocks = 24;
    options.engine.before_step = [&](std::uint64_t, const std::atomic<bool>&) {
      if (chance(40)) throw std::runtime_error("a fault");
    };
    TestCompany company(options);
    struct Sent {
      RequestId id;
      std::vector<TokenId> prompt;
      std::uint32_t max_tokens;
      bool silent = false, disturbed = false;
    };
    std::vector<Sent> sent;
    static constexpr Role kRoles[] = {Role::SHARD, Role::DEVICE_TIER, Role::SCHEDULER, Role::REPLICA_SUPERVISOR, Role::ROUTER};
    for (int round = 0; round < 120; ++round) {
      if (sent.size() < 20 && chance(3)) {
        const auto prompt = letters(5 + random() % 90, random() % 4);
        const auto max_tokens = static_cast<std::uint32_t>(1 + random() % 60);
        sent.push_back({company.submit(TestCompany::completion(prompt, max_tokens)), prompt, max_tokens});
      }
      if (chance(25)) company.kill(company.find(kRoles[random() % std::size(kRoles)]));
      if (!sent.empty() && chance(15)) {
        auto& victim = sent[random() % sent.size()];
        if (company.stream(victim.id).session && company.stream(victim.id).finished == 0) {
          victim.silent = chance(2);
          victim.disturbed = true;
          company.cancel(victim.id, victim.silent);
        }
      }
      company.settle(random() % 6);
      if (chance(4)) company.advance(milliseconds{20});
    }
    for (auto& request : sent) {
      if (!request.silent) company.run_until_finished(request.id, milliseconds{60'000});
      auto& stream = company.stream(request.id);
      CAPTURE(request.id.value, request.silent, request.disturbed);
      if (!request.silent) CHECK(stream.finished == 1);
      CHECK(stream.finished <= 1);
      CHECK(stream.admitted <= 1);
      const auto expected = company.text_of(fake_tokens(request.prompt, request.max_tokens));
      const auto text = stream.text.contains(0) ? stream.text.at(0) : "";
      if (stream.finished == 1 && !stream.error && !request.disturbed) CHECK(text == expected);
      CHECK(expected.starts_with(text));
    }
    CHECK(company.all_blocks_free());
    CHECK_FALSE(company.fatal);
  }
}
