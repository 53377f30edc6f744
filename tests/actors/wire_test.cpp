// Every plain struct that travels comes back equal from its schema.
#include "actors/wire/admission.h"
#include "actors/wire/cache.h"
#include "actors/wire/common.h"
#include "actors/wire/plan.h"
#include "actors/wire/request.h"
#include "actors/wire/session_store.h"

#include <catch2/catch.hpp>

using namespace troupe;
namespace wire = troupe::actors::wire;

namespace {

plan::SamplingParameters sampling() {
  plan::SamplingParameters s;
  s.temperature = 0.5F;
  s.top_p = 0.9F;
  s.min_p = 0.1F;
  s.top_k = 40;
  s.seed = 0xffff'ffff'ffff'fff1;
  s.repetition_penalty = 1.1F;
  s.presence_penalty = -0.5F;
  s.frequency_penalty = 0.25F;
  s.bias_tokens = {3, 9};
  s.biases = {-100.0F, 2.5F};
  s.top_logprobs = 5;
  return s;
}
Error error() { return {ErrorClass::kOverloaded, ErrorReason{5}, "try later", "queue of 256", "messages[0].content", 1500}; }
schedule::TopLogprobs logprobs() { return {{-1.5F, -2.0F}, 2, {1, 2, 3, 4}, {-0.1F, -0.2F, -0.3F, -0.4F}}; }
void check_equal(const schedule::TopLogprobs& a, const schedule::TopLogprobs& b) {
  CHECK(a.chosen == b.chosen);
  CHECK(a.width == b.width);
  CHECK(a.ids == b.ids);
  CHECK(a.logprobs == b.logprobs);
}

}  // namespace

TEST_CASE("ForwardPlan") {
  plan::ForwardPlan p;
  p.epoch = GroupEpoch{3};
  p.step = StepNumber{1'000'000'000'000};
  p.dropped = {SequenceSlot{0}, SequenceSlot{5}};
  p.added.resize(2);
  p.added[0] = {SequenceSlot{1}, 2, 64, {7, 8}, sampling(), {1, 2, 3}, 2};
  p.append_slots = {SequenceSlot{4}};
  p.append_blocks = {12};
  p.runs = {{SequenceSlot{4}, plan::kNextPosition, 1, 0}, {SequenceSlot{1}, 64, 2, 1}};
  p.tokens = {plan::kLastToken, 5, 6};
  p.samples = {{0, SequenceSlot{4}, plan::kDraw, 5, 0}, {2, SequenceSlot{1}, 77, plan::kNoLogprobs, 1}};
  p.copies = {{1, 2, 31, Tier::kDevice, Tier::kDevice}};
  p.cuts = {1, 2};
  CHECK(wire::decode(*wire::encode(p)) == p);
  CHECK(wire::decode(*wire::encode(plan::ForwardPlan{})) == plan::ForwardPlan{});
}

TEST_CASE("ForwardResult") {
  const plan::ForwardResult r{GroupEpoch{2}, StepNumber{4}, 100, 20, 15, 30, {1, 2}, {1, 1}, {-0.5F, -1}, {3, 4}, {-2, -3}, {1}};
  CHECK(wire::decode(*wire::encode(r)) == r);
}

TEST_CASE("AdmitSequence, whole and in pages") {
  schedule::AdmitSequence a;
  a.request = RequestId{0xffff'0000'0000'0001};
  a.attempt = 2;
  for (TokenId i = 0; i < 200; ++i) a.tokens.push_back(i * 3);
  for (std::uint64_t i = 0; i < 6; ++i) a.keys.push_back({i, ~i});
  a.key_domain = {1, 2};
  a.generated = 7;
  a.choices = 3;
  a.first_choice = 1;
  a.max_tokens = 99;
  a.sampling = sampling();
  a.stop_tokens = {4, 5};
  a.ignore_eos = true;
  a.score_from = 8;
  a.priority = -3;
  a.deadline_ms = 1234;
  a.owner = {8, 9};
  for (std::uint32_t page : {32U, 64U, 192U, 224U}) {
    const auto pages = wire::encode(a, page);
    CHECK(pages.rest.size() == (200 - 1) / page);
    CHECK(pages.first->getPromptTokens() == 200);
    auto b = wire::decode(*pages.first);
    for (const auto& rest : pages.rest) REQUIRE(wire::append_page(b, *rest));
    CHECK(b.tokens == a.tokens);
    CHECK(b.keys == a.keys);
    CHECK(b.request == a.request);
    CHECK(b.attempt == a.attempt);
    CHECK(b.key_domain == a.key_domain);
    CHECK(b.generated == a.generated);
    CHECK(b.choices == a.choices);
    CHECK(b.first_choice == a.first_choice);
    CHECK(b.max_tokens == a.max_tokens);
    CHECK(b.sampling == a.sampling);
    CHECK(b.stop_tokens == a.stop_tokens);
    CHECK(b.ignore_eos == a.ignore_eos);
    CHECK(b.score_from == a.score_from);
    CHECK(b.priority == a.priority);
    CHECK(b.deadline_ms == a.deadline_ms);
    CHECK(b.owner == a.owner);
    if (!pages.rest.empty()) CHECK_FALSE(wire::append_page(b, *pages.rest.front()));  // out of order
  }
  CHECK(wire::encode(a).first.bytes().size() < 256 * 1024);
}

TEST_CASE("answers of the scheduler") {
  const auto admitted = wire::decode(*wire::encode(schedule::SequenceAdmitted{RequestId{1}, 2, 3, 4, 5}));
  CHECK(admitted.request == RequestId{1});
  CHECK(admitted.attempt == 2);
  CHECK(admitted.first_choice == 3);
  CHECK(admitted.queued_requests == 4);
  CHECK(admitted.expected_ms == 5);
  CHECK(wire::decode(*wire::encode(schedule::AdmissionRefused{RequestId{1}, 2, 3, error()})).error == error());
  const auto abort = wire::decode(*wire::encode(schedule::AbortSequence{RequestId{1}, 2, {0, 3}}));
  CHECK(abort.attempt == 2);
  CHECK(abort.choices == std::vector<std::uint16_t>{0, 3});

  schedule::TokensGenerated tokens;
  tokens.request = RequestId{6};
  tokens.attempt = 1;
  tokens.choice = 2;
  tokens.first = 30;
  tokens.tokens = {5, 6};
  tokens.logprobs = logprobs();
  tokens.finish = schedule::Finish::kFailed;
  tokens.stop_token = 9;
  tokens.error = error();
  tokens.has_cache_report = true;
  tokens.cache = {{1, 2, 3, 4}, kv::MissReason::kEvicted, 77};
  const auto back = wire::decode(*wire::encode(tokens));
  CHECK(back.request == tokens.request);
  CHECK(back.attempt == 1);
  CHECK(back.choice == 2);
  CHECK(back.first == 30);
  CHECK(back.tokens == tokens.tokens);
  check_equal(back.logprobs, tokens.logprobs);
  CHECK(back.finish == tokens.finish);
  CHECK(back.stop_token == 9);
  CHECK(back.error == error());
  CHECK(back.has_cache_report);
  CHECK(back.cache == tokens.cache);
  CHECK_FALSE(wire::decode(*wire::encode(schedule::TokensGenerated{})).has_cache_report);

  const auto scored = wire::decode(*wire::encode(schedule::PromptScored{RequestId{1}, 2, 3, logprobs()}));
  CHECK(scored.first == 3);
  check_equal(scored.logprobs, logprobs());

  schedule::ReplicaLoad load;
  load.replica = ReplicaId{1};
  load.epoch = GroupEpoch{2};
  load.number = 3;
  load.running_sequences = 4;
  load.waiting_requests = 5;
  load.waiting_tokens = 1ULL << 40;
  load.free_blocks = 6;
  load.total_blocks = 7;
  load.prefill_tokens_per_second = 1.5F;
  load.step_us = 8;
  load.state = schedule::ReplicaState::kDraining;
  const auto told = wire::decode(*wire::encode(load));
  CHECK(told.number == 3);
  CHECK(told.waiting_tokens == 1ULL << 40);
  CHECK(told.free_blocks == 6);
  CHECK(told.total_blocks == 7);
  CHECK(told.state == load.state);
}

TEST_CASE("the tier protocol") {
  kv::Match match{GroupEpoch{1}, LockId{2}, 3, {{4, 5}, {6, 7}}, {8, 9}, 10, {11, 12}};
  const auto m = wire::decode(*wire::encode(match));
  CHECK(m.epoch == match.epoch);
  CHECK(m.lock == match.lock);
  CHECK(m.first_block == 3);
  CHECK(m.keys == match.keys);
  CHECK(m.tokens == match.tokens);
  CHECK(m.max_tokens == 10);
  CHECK(m.domain == match.domain);

  kv::PrefixMatched matched;
  matched.epoch = GroupEpoch{1};
  matched.lock = LockId{2};
  matched.device_blocks = {3, 0};
  matched.host_blocks = {4};
  matched.disk_blocks = {5};
  matched.tail_block = 0;
  matched.tail_tokens = 31;
  matched.tail_lock = LockId{6};
  matched.miss = kv::MissReason::kOtherDomain;
  matched.host_tier = 9;
  matched.disk_tier = 10;
  const auto pm = wire::decode(*wire::encode(matched));
  CHECK(pm.device_blocks == matched.device_blocks);
  CHECK(pm.host_blocks == matched.host_blocks);
  CHECK(pm.disk_blocks == matched.disk_blocks);
  CHECK(pm.tail_block == 0);
  CHECK(pm.tail_tokens == 31);
  CHECK(pm.tail_lock == LockId{6});
  CHECK(pm.miss == matched.miss);
  CHECK(pm.host_tier == 9);
  CHECK(pm.disk_tier == 10);
  CHECK(wire::decode(*wire::encode(kv::PrefixMatched{})).tail_block == kNone32);

  const auto lease = wire::decode(*wire::encode(kv::LeaseBlocks{GroupEpoch{1}, LeaseId{2}, 3, false}));
  CHECK(lease.lease == LeaseId{2});
  CHECK(lease.blocks == 3);
  CHECK_FALSE(lease.contiguous);
  const auto leased = wire::decode(*wire::encode(kv::BlocksLeased{GroupEpoch{1}, LeaseId{2}, {{0, 4}, {9, 1}}, 5, true}));
  CHECK(leased.ranges == std::vector<BlockRange>{{0, 4}, {9, 1}});
  CHECK(leased.evictable == 5);
  CHECK(leased.more_follow);

  const kv::PublishBlocks publish{GroupEpoch{1}, LockId{2}, {3, 4}, {{5, 6}}, {7, 8}, 9, {10, 11}, {12, 13}};
  const auto pb = wire::decode(*wire::encode(publish));
  CHECK(pb.parent == publish.parent);
  CHECK(pb.keys == publish.keys);
  CHECK(pb.blocks == publish.blocks);
  CHECK(pb.tail == 9);
  CHECK(pb.tokens == publish.tokens);
  CHECK(pb.domain == publish.domain);

  const auto release = wire::decode(*wire::encode(kv::ReleaseBlocks{GroupEpoch{1}, {LockId{2}}, {{3, 4}}}));
  CHECK(release.locks == std::vector{LockId{2}});
  CHECK(release.leased == std::vector<BlockRange>{{3, 4}});
}

TEST_CASE("what goes down, and what came back") {
  const auto finished = wire::decode(*wire::encode(kv::LoadFinished{GroupEpoch{1}, LockId{2}, {{3, 4}, {5, 6}}}));
  CHECK(finished.epoch == GroupEpoch{1});
  CHECK(finished.lock == LockId{2});
  CHECK(finished.failed == std::vector<BlockKey>{{3, 4}, {5, 6}});

  const auto wanted = wire::decode(*wire::encode(kv::WriteDownWanted{GroupEpoch{1}, {{{2, 3}, {}, 4}, {{5, 6}, {2, 3}, 0}}, true, 7}));
  CHECK(wanted.epoch == GroupEpoch{1});
  REQUIRE(wanted.blocks.size() == 2);
  CHECK(wanted.blocks[0].key == BlockKey{2, 3});
  CHECK_FALSE(wanted.blocks[0].parent);
  CHECK(wanted.blocks[0].source == 4);
  CHECK(wanted.blocks[1].parent == BlockKey{2, 3});
  CHECK(wanted.soon);
  CHECK(wanted.tier == 7);
  const auto uneven = Message<messages::WriteDownWanted>::build([](messages::WriteDownWanted::Builder b) {
    b.initBlocks(3);
    b.initKeys(2);
  });
  CHECK(wire::decode(*uneven).blocks.empty());

  const auto written = wire::decode(*wire::encode(kv::WrittenDown{GroupEpoch{1}, {{2, 3}}, {{4, 5}, {6, 7}}}));
  CHECK(written.epoch == GroupEpoch{1});
  CHECK(written.keys == std::vector<BlockKey>{{2, 3}});
  CHECK(written.failed == std::vector<BlockKey>{{4, 5}, {6, 7}});
}

TEST_CASE("block events travel whole") {
  using Kind = kv::BlockChange::Kind;
  kv::BlockEvents events{
      .replica = ReplicaId{2}, .incarnation = 3, .query = 4, .first = 5, .snapshot = true, .cleared = true, .more = true};
  events.changes = {
      {Kind::kStored, Tier::kDisk, {1, 2}, {3, 4}}, {Kind::kRemoved, Tier::kHost, {5, 6}, {}}, {Kind::kCleared, Tier::kDevice, {}, {}}};
  CHECK(wire::decode(*wire::encode(events)) == events);
  events.tokens = {{7, 8}, {}, {}};
  CHECK(wire::decode(*wire::encode(events)) == events);
  const auto read = wire::decode(*wire::encode(kv::ReadBlockEvents{1, 2, 3, 4, true}));
  CHECK((read.reader == 1 && read.query == 2 && read.incarnation == 3 && read.after == 4 && read.tokens));
}

TEST_CASE("an inventory travels in pages") {
  std::vector<kv::InventoryEntry> entries;
  for (std::uint32_t i = 1; i <= 25; ++i) entries.push_back({{i, ~std::uint64_t{i}}, 100 - i, i * 7});
  for (std::size_t size : {1U, 10U, 25U, 10'900U}) {
    const auto pages = wire::encode_inventory(GroupEpoch{3}, 1, Tier::kDisk, entries, size);
    CHECK(pages.size() == (25 + size - 1) / size);
    std::vector<kv::InventoryEntry> all;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto page = wire::decode(*pages[i]);
      CHECK(page.epoch == GroupEpoch{3});
      CHECK(page.rank == 1);
      CHECK(page.tier == Tier::kDisk);
      CHECK(page.page == i);
      CHECK(page.pages == pages.size());
      all.insert(all.end(), page.entries.begin(), page.entries.end());
    }
    CHECK(all == entries);
  }
  CHECK(wire::encode_inventory(GroupEpoch{3}, 0, Tier::kHost, {}).size() == 1);
  const std::vector<kv::InventoryEntry> full(10'900);
  CHECK(wire::encode_inventory(GroupEpoch{3}, 0, Tier::kHost, full)[0].bytes().size() <= messages::PAGE_BYTES);
  const auto asked = wire::report_inventory(Tier::kDisk, 77);
  CHECK(asked->getTier() == messages::Tier::DISK);
  CHECK(asked->getIncarnation() == 77);
}

TEST_CASE("SubmitRequest") {
  session::Request r;
  r.request = RequestId{1};
  r.endpoint = session::Endpoint::kResponses;
  r.model = "m";
  r.owner = {1, 2};
  r.connection = 3;
  r.lane = "lane";
  r.response_id = "resp_1";
  r.previous_response_id = "resp_0";
  r.retention = session::Retention::kDisk;
  r.cache_salt = "salt";
  r.priority = -1;
  r.deadline_ms = 4;
  r.elapsed_ms = 5;
  r.instructions = "be kind";
  r.tools_json = R"([{"type":"function"}])";
  r.sampling = sampling();
  r.choices = 6;
  r.max_tokens = 7;
  r.stops = {"a", "b"};
  r.stop_tokens = {8};
  r.ignore_eos = r.echo = r.stream = true;
  r.score_from = 9;
  r.parse_special = true;
  r.add_special = r.generation_prompt = false;
  r.credit = 10;
  r.key_domains = {{11, 12}};
  using Input = decltype(r.input);
  for (const auto& input : {Input(std::vector<session::InputItem>{{"user", std::string("nul \0 inside", 12), "n", "c", "{}"}}),
                            Input(std::string("text")), Input(std::vector<TokenId>{1, 2})}) {
    r.input = input;
    const auto b = wire::decode(*wire::encode(r));
    CHECK(b.input == r.input);
    CHECK(b.request == r.request);
    CHECK(b.endpoint == r.endpoint);
    CHECK(b.model == r.model);
    CHECK(b.owner == r.owner);
    CHECK(b.connection == r.connection);
    CHECK(b.lane == r.lane);
    CHECK(b.response_id == r.response_id);
    CHECK(b.previous_response_id == r.previous_response_id);
    CHECK(b.retention == r.retention);
    CHECK(b.cache_salt == r.cache_salt);
    CHECK(b.priority == r.priority);
    CHECK(b.deadline_ms == r.deadline_ms);
    CHECK(b.elapsed_ms == r.elapsed_ms);
    CHECK(b.instructions == r.instructions);
    CHECK(b.tools_json == r.tools_json);
    CHECK(b.sampling == r.sampling);
    CHECK(b.choices == r.choices);
    CHECK(b.max_tokens == r.max_tokens);
    CHECK(b.stops == r.stops);
    CHECK(b.stop_tokens == r.stop_tokens);
    CHECK((b.ignore_eos && b.echo && b.stream));
    CHECK(b.score_from == r.score_from);
    CHECK((b.parse_special && !b.add_special && !b.generation_prompt));
    CHECK(b.credit == r.credit);
    CHECK(b.key_domains == r.key_domains);
  }
}

TEST_CASE("RequestFinished tells its one outcome and the usage") {
  wire::Usage usage{10, 20, kv::CacheReport{{1, 0, 0, 9}, kv::MissReason::kEvicted, 0}, {7, 8}, logprobs(), {"a", "\xff"}, true, {}};
  const auto good = wire::request_finished(RequestId{1}, {{session::ChoiceReason::kLength, 20, "END"}}, usage);
  REQUIRE(good->getOutcome().isChoices());
  CHECK(good->getOutcome().getChoices()[0].getReason() == messages::FinishReason::LENGTH);
  CHECK(std::string(good->getOutcome().getChoices()[0].getStop().cStr()) == "END");
  CHECK(good->getPromptTokens() == 10);
  CHECK(good->getOutputTokens() == 20);
  CHECK(good->getNumericsChanged());
  CHECK(wire::decode(good->getCache()) == *usage.cache);
  check_equal(wire::decode(good->getPromptLogprobs()), usage.prompt_logprobs);
  CHECK(wire::to_vector<TokenId>(good->getPromptIds()) == usage.prompt_ids);
  CHECK(good->getTokenTexts()[1][0] == 0xff);
  const auto bad = wire::request_failed(RequestId{1}, error(), {});
  REQUIRE(bad->getOutcome().isError());
  CHECK(wire::decode(bad->getOutcome().getError()) == error());
  CHECK_FALSE(bad->hasCache());
  const auto plain = wire::request_tokenized(RequestId{1}, {1, 2}, {}, std::nullopt);
  CHECK(plain->getOutcome().getTokens().size() == 2);
  CHECK_FALSE(plain->hasText());
  const auto with_texts = wire::request_tokenized(RequestId{1}, {1}, {"\xf0"}, "text");
  CHECK(with_texts->getTokenTexts()[0][0] == 0xf0);
  CHECK(with_texts->getText().size() == 4);
}

TEST_CASE("responses travel in pages") {
  session::StoredResponse stored;
  stored.id = "a";
  stored.parent = "b";
  stored.owner = {1, 2};
  stored.retention = session::Retention::kConnection;
  stored.connection = 3;
  stored.lane = "l";
  stored.ttl = std::chrono::seconds(9);
  stored.model = "m";
  stored.template_id = {4, 5};
  stored.key_domain = {6, 7};
  stored.inherited = 8;
  stored.prompt_tokens = 10;
  for (TokenId i = 0; i < 100; ++i) stored.tokens.push_back(i);
  stored.record = std::string(1000, 'x') + "end";
  for (std::size_t page : {64U, 401U, 4096U}) {
    const auto pages = wire::encode(77, stored, page);
    if (page == 4096U) CHECK(pages.size() == 1);
    wire::PageJoiner<session::StoredResponse> joiner;
    std::optional<session::StoredResponse> whole;
    for (const auto& p : pages) {
      REQUIRE_FALSE(whole);
      CHECK(p->getQuery() == 77);
      whole = joiner.add(*p);
    }
    REQUIRE(whole);
    CHECK(whole->id == stored.id);
    CHECK(whole->parent == stored.parent);
    CHECK(whole->owner == stored.owner);
    CHECK(whole->retention == stored.retention);
    CHECK(whole->connection == 3);
    CHECK(whole->lane == "l");
    CHECK(whole->ttl == stored.ttl);
    CHECK(whole->template_id == stored.template_id);
    CHECK(whole->key_domain == stored.key_domain);
    CHECK(whole->inherited == 8);
    CHECK(whole->prompt_tokens == 10);
    CHECK(whole->tokens == stored.tokens);
    CHECK(whole->record == stored.record);
  }
  const session::FoundResponse found{stored.tokens, 10, "m", {4, 5}, stored.record};
  wire::PageJoiner<session::FoundResponse> joiner;
  std::optional<session::FoundResponse> whole;
  for (const auto& p : wire::encode(1, found, true, true, 128)) whole = joiner.add(*p);
  REQUIRE(whole);
  CHECK(whole->tokens == found.tokens);
  CHECK(whole->record == found.record);
  CHECK(wire::encode(1, found, false, false, 128).size() == 1);

  const auto pages = wire::encode(1, found, true, true, 128);
  wire::PageJoiner<session::FoundResponse> broken;
  broken.add(*pages[1]);
  CHECK(broken.broken());
  CHECK_FALSE(broken.add(*pages[0]));
}
