#include "runtime/exec/shard_engine.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "tests/runtime/exec/greedy_sequence.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <utility>
#include <vector>

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

void enter(exec::ShardEngine& engine, std::uint32_t epoch) {
  const std::atomic<bool> abort{false};
  REQUIRE(engine.enter_epoch({{epoch}, {}, {}, {}}, abort).ok());
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

  enter(*engine, 3);
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
    enter(*engine, 1);
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
  enter(*engine, 1);
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

namespace {

/// The prompt behind its first `cached` positions, then draws, as steps `step` + 1 ... of `epoch`.
std::vector<test::Drawn> draw(exec::ShardEngine& engine, std::uint32_t epoch, std::uint64_t& step, const std::vector<BlockId>& blocks,
                              std::uint32_t cached) {
  return test::draw_greedily({epoch, blocks, cached, 100, 6}, step, [&](const plan::ForwardPlan& plan) { return engine.run(plan, false); });
}

/// Moves of blocks with keys {i + 1, 1}; how many failed.
std::size_t move(exec::ShardEngine& engine, Tier from, Tier to, const std::vector<BlockId>& sources, const std::vector<BlockId>& targets) {
  plan::MoveBlocks set;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    set.moves.push_back({sources[i], targets[i], kBlockTokens, from, to});
    set.keys.push_back({i + 1, 1});
  }
  std::promise<plan::MovesFinished> promise;
  engine.stores()->start(set, [&promise](plan::MovesFinished finished) { promise.set_value(std::move(finished)); });
  return promise.get_future().get().failed.size();
}

}  // namespace

TEST_CASE("Blocks kept in the host's memory and on disk give the same bits, in the next epoch and after a restart", "[shard_engine]") {
  const std::string format = GENERATE("int8", "fp16", "fp32");
  const auto folder = test::scratch_folder() / "tiers";
  std::filesystem::remove_all(folder);
  exec::ShardSpec spec = tiny_spec();
  spec.kv_format = format;
  spec.host_bytes = 1 << 20;
  spec.disk_bytes = 4 << 20;
  spec.cache_folder = folder.string();
  spec.cache_in_background = false;
  const std::vector<BlockId> computed = {5, 3, 9}, below = {1, 0, 2}, loaded = {2, 7, 11}, from_disk = {4, 30, 0};
  std::vector<test::Drawn> wanted;
  {
    const auto engine = exec::make_shard_engine();
    const auto facts = engine->load(spec, {}).value();
    CHECK(facts.block_bytes > 0);
    CHECK(facts.host_blocks == spec.host_bytes / facts.block_bytes);
    CHECK(facts.disk_blocks == spec.disk_bytes / facts.block_bytes);
    REQUIRE(engine->stores() != nullptr);
    enter(*engine, 1);
    std::uint64_t step = 0;
    wanted = draw(*engine, 1, step, {5, 3, 9, 1}, 0);
    REQUIRE(move(*engine, Tier::kDevice, Tier::kHost, computed, below) == 0);
    REQUIRE(move(*engine, Tier::kHost, Tier::kDisk, below, from_disk) == 0);
    engine->stores()->end_epoch();
    enter(*engine, 2);
    step = 0;
    // Other tokens in the blocks of the first epoch, then the kept ones in others.
    draw(*engine, 2, step, {3, 5, 1, 9}, 0);
    REQUIRE(move(*engine, Tier::kHost, Tier::kDevice, below, loaded) == 0);
    CHECK(draw(*engine, 2, step, {2, 7, 11, 12}, 96) == wanted);
    // Steps tell the stores what they write: a loaded block that a plan was given is nobody's.
    draw(*engine, 2, step, {2, 7, 13, 12}, 32);
    CHECK(move(*engine, Tier::kDevice, Tier::kHost, {2}, {4}) == 0);
    plan::MoveBlocks taken_for_another;
    taken_for_another.moves = {{2, 5, kBlockTokens, Tier::kDevice, Tier::kHost}, {7, 6, kBlockTokens, Tier::kDevice, Tier::kHost}};
    taken_for_another.keys = {{99, 1}, {99, 1}};
    std::promise<plan::MovesFinished> end;
    engine->stores()->start(taken_for_another, [&end](plan::MovesFinished finished) { end.set_value(std::move(finished)); });
    CHECK(end.get_future().get().failed == std::vector<std::uint32_t>{0});
  }
  const auto engine = exec::make_shard_engine();
  REQUIRE(engine->load(spec, {}).ok());
  enter(*engine, 1);
  CHECK(move(*engine, Tier::kHost, Tier::kDevice, below, loaded) == 3);  // gone with the process
  REQUIRE(move(*engine, Tier::kDisk, Tier::kDevice, from_disk, loaded) == 0);
  std::uint64_t step = 0;
  CHECK(draw(*engine, 1, step, {2, 7, 11, 0}, 96) == wanted);

  // Another format of K and V is another domain, in the same folder.
  spec.kv_format = format == "int8" ? "fp16" : "int8";
  const auto other = exec::make_shard_engine();
  REQUIRE(other->load(spec, {}).ok());
  enter(*other, 1);
  CHECK(move(*other, Tier::kDisk, Tier::kDevice, from_disk, loaded) == 3);
}

TEST_CASE("A shard without tiers has no stores; one whose tiers cannot be names the option", "[shard_engine]") {
  exec::ShardSpec spec = tiny_spec();
  const auto plain = exec::make_shard_engine();
  const auto facts = plain->load(spec, {}).value();
  CHECK(plain->stores() == nullptr);
  CHECK(facts.host_blocks == 0);
  CHECK(facts.block_bytes > 0);
  const auto refused = [](const exec::ShardSpec& bad) {
    const auto loaded = exec::make_shard_engine()->load(bad, {});
    REQUIRE_FALSE(loaded.ok());
    return loaded.error().parameter;
  };
  spec.host_bytes = 1;
  CHECK(refused(spec) == "host-cache");
  spec.host_bytes = UINT64_MAX;
  CHECK(refused(spec) == "host-cache");
  spec.host_bytes = 0;
  spec.disk_bytes = 1 << 20;
  CHECK(refused(spec) == "disk-cache");  // no folder
  // A folder that cannot be had costs the tier, not the start.
  const auto file = test::scratch_folder() / "no_folder";
  std::ofstream(file) << "a file";
  spec.cache_folder = file.string();
  base::set_log_level("error");
  const auto without = exec::make_shard_engine();
  const auto loaded = without->load(spec, {});
  REQUIRE(loaded.ok());
  CHECK(loaded->disk_blocks == 0);
  CHECK(without->stores() == nullptr);
}
