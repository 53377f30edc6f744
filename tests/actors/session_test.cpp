// A request from the client's side: limits, stops, credits, deadline, continuation, log-probabilities.
#include "messages/error_reasons.h"
#include "tests/actors/test_company.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::test;

TEST_CASE("context length: 400 with both counts, before anything is admitted") {
  TestCompanyOptions options;
  options.engine.context_tokens = 100;
  TestCompany company(options);
  const auto id = company.submit(TestCompany::completion(letters(90), 20));
  company.run_until_finished(id);
  auto& stream = company.stream(id);
  REQUIRE(stream.error);
  CHECK(stream.error->error_class == ErrorClass::kContextTooLong);
  CHECK(stream.error->client_text.find("100") != std::string::npos);
  CHECK(stream.error->client_text.find("110") != std::string::npos);
  CHECK(stream.admitted == 0);
  CHECK(company.count("RequestSession>Scheduler:AdmitSequence") == 0);
  const auto open = company.submit(TestCompany::completion(letters(90), kNone32));
  company.run_until_finished(open);
  CHECK(company.stream(open).output_tokens == 10);
  CHECK(company.stream(open).reasons.at(0) == messages::FinishReason::LENGTH);
}

TEST_CASE("an unknown model, an empty prompt and a token out of the vocabulary are refused by name") {
  TestCompany company;
  auto request = TestCompany::completion(letters(5), 3);
  request.model = "other";
  auto id = company.submit(request);
  company.run_until_finished(id);
  REQUIRE(company.stream(id).error);
  CHECK(company.stream(id).error->reason == ErrorReason::kUnknownModel);
  id = company.submit(TestCompany::completion({}, 3));
  company.run_until_finished(id);
  CHECK(company.stream(id).error);
  id = company.submit(TestCompany::completion({5, 100'000}, 3));
  company.run_until_finished(id);
  REQUIRE(company.stream(id).error);
  CHECK(company.stream(id).error->client_text.find("100000") != std::string::npos);
}

TEST_CASE("without credit the text waits, with it it comes; the terminal event comes last") {
  TestCompanyOptions options;
  options.grant_credit = false;
  TestCompany company(options);
  auto request = TestCompany::completion(letters(20), 30);
  request.credit = 2;
  const auto id = company.submit(request);
  company.advance(milliseconds{500});
  CHECK(company.stream(id).deltas == 2);
  CHECK(company.stream(id).finished == 0);  // text is still to come
  company.grant(id, 1);
  company.settle();
  CHECK(company.stream(id).deltas == 3);
  CHECK(company.stream(id).finished == 1);
  CHECK(company.stream(id).text.at(0) == company.text_of(fake_tokens(letters(20), 30)));
}

TEST_CASE("without streaming there is one delta") {
  TestCompany company;
  auto request = TestCompany::completion(letters(20), 30);
  request.stream = false;
  request.credit = 0;
  const auto id = company.submit(request);
  company.run_until_finished(id);
  CHECK(company.stream(id).deltas == 1);
  CHECK(company.stream(id).text.at(0) == company.text_of(fake_tokens(letters(20), 30)));
}

TEST_CASE("without streaming, what weighs much does not all wait for the end") {
  TestCompany company;
  auto request = TestCompany::completion(letters(20), 60);
  request.stream = false;
  request.choices = 8;
  request.sampling.top_logprobs = 4;
  const auto id = company.submit(request);
  company.run_until_finished(id);
  CHECK(company.stream(id).deltas > 1);
  CHECK(company.stream(id).deltas < 10);
  for (std::uint16_t choice = 0; choice < 8; choice++) CHECK_FALSE(company.stream(id).text.at(choice).empty());
}

TEST_CASE("deadline: one terminal error, blocks free") {
  TestCompany company;
  auto request = TestCompany::completion(letters(20), 1000);
  request.deadline_ms = 300;
  request.elapsed_ms = 100;
  const auto id = company.submit(request);
  company.settle(5);
  company.advance_stalled(milliseconds{180});
  CHECK(company.stream(id).finished == 0);
  company.advance_stalled(milliseconds{40});
  REQUIRE(company.stream(id).finished == 1);
  REQUIRE(company.stream(id).error);
  CHECK(company.stream(id).error->error_class == ErrorClass::kDeadlineExceeded);
  company.settle();
  CHECK(company.all_blocks_free());
}

TEST_CASE("cancel: a terminal event with what there was, reason cancelled") {
  TestCompany company;
  const auto id = company.submit(TestCompany::completion(letters(20), 1000));
  company.settle(8);
  company.cancel(id, false);
  company.settle();
  auto& stream = company.stream(id);
  REQUIRE(stream.finished == 1);
  CHECK_FALSE(stream.error);
  CHECK(stream.reasons == std::vector{messages::FinishReason::CANCELLED});
  CHECK(stream.output_tokens == stream.text.at(0).size());
  CHECK(company.all_blocks_free());
}

TEST_CASE("cancel before admission is an error, not an empty success") {
  TestCompany company;
  const auto id = company.submit(TestCompany::completion(letters(20), 1000));
  company.cancel(id, false);
  company.settle();
  REQUIRE(company.stream(id).finished == 1);
  REQUIRE(company.stream(id).error);
  CHECK(company.stream(id).error->error_class == ErrorClass::kCancelled);
}

TEST_CASE("stop strings and stop tokens") {
  TestCompany company;
  const auto prompt = letters(33);
  const auto all = fake_tokens(prompt, 50);
  const auto text = company.text_of(all);
  auto request = TestCompany::completion(prompt, 50);
  request.stops = {"never there", text.substr(9, 3)};
  auto id = company.submit(request);
  company.run_until_finished(id);
  const auto cut = text.find(request.stops[1]);
  CHECK(company.stream(id).text[0] == text.substr(0, cut));
  CHECK(company.stream(id).output_tokens == cut);
  CHECK(company.stream(id).stops.at(0) == request.stops[1]);

  request.stops.clear();
  request.stop_tokens = {all[7]};
  id = company.submit(request);
  company.run_until_finished(id);
  const auto end = static_cast<std::size_t>(std::find(all.begin(), all.end(), all[7]) - all.begin());
  CHECK(company.stream(id).text[0] == text.substr(0, end));
  CHECK(company.stream(id).reasons.at(0) == messages::FinishReason::STOP);
}

TEST_CASE("log-probabilities belong to the tokens whose text is sent") {
  TestCompany company;
  const auto prompt = letters(33);
  auto request = TestCompany::completion(prompt, 20);
  request.sampling.top_logprobs = 2;
  const auto id = company.submit(request);
  company.run_until_finished(id);
  const auto expected = fake_tokens(prompt, 20);
  CHECK(company.stream(id).ids[0] == expected);
  REQUIRE(company.stream(id).logprobs[0].size() == 20);
  for (std::size_t i = 0; i < 20; ++i) CHECK(company.stream(id).logprobs[0][i] == -0.25F * static_cast<float>(expected[i] % 7));
}

TEST_CASE("tokenize needs no engine") {
  TestCompany company;
  auto request = TestCompany::completion({}, 0);
  request.endpoint = session::Endpoint::kTokenize;
  request.input = std::string("hello <|im_start|>");
  const auto id = company.submit(request);
  company.run_until_finished(id);
  CHECK(company.stream(id).tokenized == company.tokens_of("hello <|im_start|>"));  // a user's control tokens are text
  CHECK(company.count("RequestSession>Router:ChooseReplica") == 0);
}

TEST_CASE("a continued turn takes the parent's exact ids over") {
  TestCompany company;
  auto request = TestCompany::chat({{"user", "Hello there", {}, {}, {}}}, 8);
  request.response_id = "resp_1";
  const auto first = company.submit(request);
  company.run_until_finished(first);
  REQUIRE(company.stream(first).finished == 1);
  REQUIRE_FALSE(company.stream(first).error);
  const auto answer = company.stream(first).text.at(0);

  auto next = TestCompany::chat({{"user", "and more", {}, {}, {}}}, 8);
  next.response_id = "resp_2";
  next.previous_response_id = "resp_1";
  const auto second = company.submit(next);
  company.run_until_finished(second);
  REQUIRE_FALSE(company.stream(second).error);

  // The same conversation sent whole gives the same prompt, hence the same answer.
  auto whole =
      TestCompany::chat({{"user", "Hello there", {}, {}, {}}, {"assistant", answer, {}, {}, {}}, {"user", "and more", {}, {}, {}}}, 8);
  const auto third = company.submit(whole);
  company.run_until_finished(third);
  CHECK(company.stream(second).text.at(0) == company.stream(third).text.at(0));
  CHECK(company.stream(second).prompt_tokens == company.stream(third).prompt_tokens);
  REQUIRE(company.stream(second).cache);
  CHECK(company.stream(second).cache->tokens.device >= company.stream(first).prompt_tokens + 7);
  CHECK(company.stream(second).cache->miss != kv::MissReason::kTemplateRewrote);

  // A fork: another child of the same parent.
  next.response_id = "resp_3";
  const auto fork = company.submit(next);
  company.run_until_finished(fork);
  CHECK(company.stream(fork).text.at(0) == company.stream(second).text.at(0));
}

TEST_CASE("a cancelled answer can be continued from what there was") {
  TestCompany company;
  auto request = TestCompany::chat({{"user", "Hello there", {}, {}, {}}}, 1000);
  request.response_id = "resp_1";
  const auto first = company.submit(request);
  company.settle(12);
  company.cancel(first, false);
  company.settle();
  REQUIRE(company.stream(first).reasons == std::vector{messages::FinishReason::CANCELLED});
  const auto answer = company.stream(first).text.at(0);
  REQUIRE_FALSE(answer.empty());
  auto next = TestCompany::chat({{"user", "and more", {}, {}, {}}}, 8);
  next.previous_response_id = "resp_1";
  const auto second = company.submit(next);
  company.run_until_finished(second);
  REQUIRE_FALSE(company.stream(second).error);
  const auto third = company.submit(
      TestCompany::chat({{"user", "Hello there", {}, {}, {}}, {"assistant", answer, {}, {}, {}}, {"user", "and more", {}, {}, {}}}, 8));
  company.run_until_finished(third);
  CHECK(company.stream(second).text.at(0) == company.stream(third).text.at(0));
  CHECK(company.stream(second).prompt_tokens == company.stream(third).prompt_tokens);
}

TEST_CASE("a previous response of another owner, or none, is not found") {
  TestCompany company;
  auto request = TestCompany::chat({{"user", "Hello", {}, {}, {}}}, 3);
  request.response_id = "resp_1";
  company.run_until_finished(company.submit(request));
  auto next = TestCompany::chat({{"user", "more", {}, {}, {}}}, 3);
  next.previous_response_id = "resp_1";
  next.owner = {9, 9};
  const auto foreign = company.submit(next);
  company.run_until_finished(foreign);
  next.previous_response_id = "resp_0";
  const auto unknown = company.submit(next);
  company.run_until_finished(unknown);
  for (auto id : {foreign, unknown}) {
    REQUIRE(company.stream(id).error);
    CHECK(company.stream(id).error->reason == ErrorReason::kPreviousResponse);
    CHECK(company.stream(id).admitted == 0);
  }
}

TEST_CASE("a long prompt travels in pages and slices") {
  TestCompanyOptions options;
  options.engine.blocks = 8000;
  options.engine.context_tokens = 200'000;
  options.scheduler.token_budget = 40'000;
  TestCompany company(options);
  std::string text;
  while (text.size() < 120'000) text += "some words that repeat ";
  auto request = TestCompany::completion({}, 2);
  request.input = text;
  const auto id = company.submit(request);
  company.run_until_finished(id);
  REQUIRE(company.stream(id).finished == 1);
  CHECK_FALSE(company.stream(id).error);
  CHECK(company.count("RequestSession>Scheduler:AppendPrompt") == 2);
  CHECK(company.stream(id).prompt_tokens == text.size());
}

TEST_CASE("another cache salt shares nothing") {
  TestCompany company;
  auto request = TestCompany::completion(letters(100), 3);
  request.cache_salt = "a";
  company.run_until_finished(company.submit(request));
  request.cache_salt = "b";
  const auto other = company.submit(request);
  company.run_until_finished(other);
  REQUIRE(company.stream(other).cache);
  CHECK(company.stream(other).cache->tokens.device == 0);
  request.cache_salt = "a";
  const auto same = company.submit(request);
  company.run_until_finished(same);
  CHECK(company.stream(same).cache->tokens.device >= 96);
}
