// The company around the real engine, with a tiny model: faults in the middle of streams change no token, nor any bit of a log-probability.
#include "tests/actors/test_company.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <filesystem>

#include <unistd.h>

using namespace troupe;
using namespace troupe::test;

namespace {

struct Answer {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  bool operator==(const Answer&) const = default;
};

/// Six streams at once, two of them sampled; all their answers.
std::vector<Answer> run(const std::filesystem::path& model, const std::string& fault, double& restarts) {
  TestCompanyOptions options;
  options.vocabulary = 320;
  options.engine.context_tokens = 512;
  options.scheduler.max_losses = 1000;  // a fault every few steps starves a stream for many epochs in a row
  options.shard.model_path = model.string();
  options.shard.device_bytes = 1 << 20;
  options.shard.threads = 1;
  options.shard.pin = false;
  options.shard.spin_us = 0;
  options.make_engine = [hook = exec::parse_fault(fault).value()] { return exec::make_shard_engine(hook); };
  TestCompany company(options);
  REQUIRE(company.ready);
  std::vector<RequestId> ids;
  for (unsigned i = 0; i < 6; ++i) {
    auto request = TestCompany::completion(letters(10 + 23 * i, i), 60);
    request.ignore_eos = true;
    request.sampling.top_logprobs = 0;
    if (i >= 4) {
      request.sampling.temperature = 1;
      request.sampling.seed = 1000 + i;
    }
    ids.push_back(company.submit(request));
  }
  std::vector<Answer> answers;
  for (auto id : ids) {
    company.run_until_finished(id);
    auto& stream = company.stream(id);
    REQUIRE(stream.finished == 1);
    REQUIRE_FALSE(stream.error);
    CHECK(stream.output_tokens == 60);
    answers.push_back({stream.text[0], stream.ids[0], stream.logprobs[0]});
  }
  CHECK(company.all_blocks_free());
  restarts = company.metric("troupe:epoch_restarts_total");
  return answers;
}

}  // namespace

TEST_CASE("faults of the real engine change no bit of any stream") {
  const auto folder = std::filesystem::temp_directory_path() / ("troupe_actors_" + std::to_string(::getpid()));
  const auto model = write_tiny_model(folder, {});
  double restarts = 0;
  const auto undisturbed = run(model, "", restarts);
  CHECK(restarts <= 0);
  for (const auto& answer : undisturbed) CHECK(answer.ids.size() == 60);
  const auto disturbed = run(model, "throw:3", restarts);
  CHECK(restarts >= 50);
  for (std::size_t i = 0; i < undisturbed.size(); ++i) {
    CAPTURE(i);
    CHECK(disturbed[i].text == undisturbed[i].text);
    CHECK(disturbed[i].ids == undisturbed[i].ids);
    CHECK(disturbed[i].logprobs == undisturbed[i].logprobs);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a model file that cannot be loaded: its error reaches the end of the process") {
  TestCompanyOptions options;
  options.shard.model_path = "/nonexistent/model.gguf";
  options.make_engine = [] { return exec::make_shard_engine(); };
  TestCompany company(options);
  company.advance(milliseconds{1000});
  REQUIRE(company.fatal);
  CHECK(*company.fatal == 1);
}
