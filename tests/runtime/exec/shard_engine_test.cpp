#include "runtime/exec/shard_engine.h"

#include "messages/error_reasons.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

using namespace troupe;

namespace {

exec::ShardSpec tiny_spec() {
  exec::ShardSpec spec;
  spec.model_path = test::write_tiny_model(test::scratch_folder(), {}).string();
  spec.threads = 1;
  spec.pin = false;
  spec.spin_us = 0;
  return spec;
}

}  // namespace

TEST_CASE("A shard loads a model, says what it has, and runs a plan", "[shard_engine]") {
  auto engine = exec::make_shard_engine();
  std::size_t last = 0, total = 0;
  const auto facts = engine->load(tiny_spec(), [&](std::size_t done, std::size_t all) {
    CHECK(done >= last);
    last = done;
    total = all;
  });
  REQUIRE(facts.ok());
  CHECK(last == total);
  CHECK(total > 0);
  CHECK(facts->context_tokens == 512);
  CHECK(facts->device_blocks == 16 * 512 / kBlockTokens);
  CHECK(facts->kv_bytes > 0);
  CHECK(facts->weight_bytes > 0);
  CHECK(facts->numerics);
  CHECK(facts->content);
  CHECK(facts->description.find("llama") != std::string::npos);

  engine->enter_epoch({3});
  plan::ForwardPlan plan;
  plan.epoch = {3};
  plan.step = {1};
  plan::AddedSequence added;
  added.blocks = {0};
  plan.added = {added};
  plan.runs = {{{0}, 0, 2, 0}};
  plan.tokens = {10, 11};
  plan.samples = {{1, {0}, plan::kDraw, 0, 0}};
  const std::atomic<bool> abort{false};
  const auto result = engine->run(plan, abort);
  CHECK(result.tokens.size() == 1);
  CHECK(result.compute_us > 0);
}

TEST_CASE("The numerics id follows the options, not the threads or the ISA", "[shard_engine]") {
  const auto id = [](const exec::ShardSpec& spec) { return exec::make_shard_engine()->load(spec, {}).value().numerics; };
  exec::ShardSpec spec = tiny_spec();
  const Hash128 base = id(spec);
  spec.threads = 2;
  spec.isa = "ref";
  CHECK(id(spec) == base);
  spec.kv_format = "fp16";
  CHECK(id(spec) != base);
  spec.kv_format = "int8";
  spec.activations = "fp32";
  CHECK(id(spec) != base);
}

TEST_CASE("A second load takes the weights from the cache folder and answers alike", "[shard_engine]") {
  const auto folder = test::scratch_folder() / "cache";
  std::filesystem::remove_all(folder);
  exec::ShardSpec spec = tiny_spec();
  spec.cache_folder = folder.string();
  spec.cache_in_background = false;
  struct Answer {
    exec::ShardFacts facts;
    TokenId token;
    float logprob;
  };
  const auto answer = [&] {
    const auto engine = exec::make_shard_engine();
    Answer out{engine->load(spec, {}).value(), 0, 0};
    engine->enter_epoch({1});
    plan::ForwardPlan plan;
    plan.epoch = {1};
    plan.step = {1};
    plan::AddedSequence added;
    added.blocks = {0};
    plan.added = {added};
    plan.runs = {{{0}, 0, 5, 0}};
    plan.tokens = {10, 11, 12, 13, 14};
    plan.samples = {{4, {0}, plan::kDraw, 1, 0}};
    const auto result = engine->run(plan, false);
    out.token = result.tokens.at(0);
    out.logprob = result.logprobs.at(0);
    return out;
  };
  const Answer first = answer(), second = answer();
  CHECK_FALSE(first.facts.weights_cached);
  CHECK(second.facts.weights_cached);
  CHECK(second.facts.numerics == first.facts.numerics);
  CHECK(second.facts.weight_bytes == first.facts.weight_bytes);
  CHECK(second.token == first.token);
  CHECK(second.logprob == first.logprob);
  // Another file of the same name is another model.
  test::TinyModelOptions other;
  other.seed = 2;
  test::write_tiny_model(test::scratch_folder(), other);
  CHECK_FALSE(answer().facts.weights_cached);
  // Whoever knows the first one is not given this one: a restarted shard must not go on with other weights.
  spec.known_content = weights::KnownContent{{}, first.facts.content};
  const auto refused = exec::make_shard_engine()->load(spec, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().client_text.find("replaced") != std::string::npos);
  test::write_tiny_model(test::scratch_folder(), {});
  CHECK(answer().facts.weights_cached);
}

TEST_CASE("A model file that is written to while it loads is refused, and nothing of it is kept", "[shard_engine]") {
  const auto folder = test::scratch_folder() / "cache_of_a_changing_model";
  std::filesystem::remove_all(folder);
  exec::ShardSpec spec = tiny_spec();
  spec.cache_folder = folder.string();
  spec.cache_in_background = false;
  const std::filesystem::path path = spec.model_path;
  const auto size = std::filesystem::file_size(path);
  bool written = false;
  const auto facts = exec::make_shard_engine()->load(spec, [&](std::size_t, std::size_t) {
    if (std::exchange(written, true)) return;
    // In place, as a download tool does that writes over an old file: the weights behind this point are others.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size - 1));
    file.put('\x5a');
    file.close();
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  });
  REQUIRE(written);
  REQUIRE_FALSE(facts.ok());
  CHECK(facts.error().client_text.find(spec.model_path) != std::string::npos);
  CHECK((!std::filesystem::exists(folder) || std::filesystem::is_empty(folder)));
  CHECK_FALSE(exec::make_shard_engine()->load(tiny_spec(), {}).value().weights_cached);
}

TEST_CASE("What cannot be loaded is an error that names the option or the file", "[shard_engine]") {
  exec::ShardSpec spec = tiny_spec();
  std::string parameter, text;
  SECTION("activations") {
    spec.activations = "int7";
    parameter = "activations";
    text = "int8, int8-token, bf16, fp32";
  }
  SECTION("kv") {
    spec.kv_format = "int4";
    parameter = "kv";
    text = "int8, fp16, fp32";
  }
  SECTION("isa") {
    spec.isa = "sse9";
    parameter = "isa";
    text = "sse9";
  }
  SECTION("too little kv memory") {
    spec.device_bytes = 1;
    parameter = "kv-memory";
    text = "blocks";
  }
  SECTION("no file") {
    spec.model_path += ".missing";
    text = ".missing";
  }
  const auto facts = exec::make_shard_engine()->load(spec, {});
  REQUIRE_FALSE(facts.ok());
  INFO(facts.error().client_text);
  if (!parameter.empty()) CHECK(facts.error().parameter == parameter);
  CHECK(facts.error().client_text.find(text) != std::string::npos);
}

TEST_CASE("A fault hook reaches the step", "[shard_engine]") {
  auto engine = exec::make_shard_engine(*exec::parse_fault("throw:1"));
  REQUIRE(engine->load(tiny_spec(), {}).ok());
  engine->enter_epoch({1});
  plan::ForwardPlan plan;
  plan.epoch = {1};
  plan.step = {1};
  plan::AddedSequence added;
  added.blocks = {0};
  plan.added = {added};
  plan.runs = {{{0}, 0, 1, 0}};
  plan.tokens = {10};
  const std::atomic<bool> abort{false};
  CHECK_THROWS_WITH(engine->run(plan, abort), Catch::Contains("fault hook"));
}
