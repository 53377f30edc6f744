// Engines of several ranks in one process: they meet, measure, agree on a codec, run plans, leave and meet again; and what one of them
// breaks ends an epoch, and nothing else.
#include "runtime/exec/rank_group.h"

#include "runtime/collective/loopback_transport.h"
#include "runtime/exec/shard_engine.h"
#include "runtime/exec/step_trace.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

using namespace troupe;

namespace {

/// Each rank on a thread while it works.
class Engines {
 public:
  explicit Engines(base::ParallelShape shape, const std::function<void(exec::ShardSpec&)>& change = {},
                   const exec::Faults& of_rank_1 = {}) {
    test::TinyModelOptions tiny;
    tiny.head_dim = 32;
    exec::ShardSpec spec;
    spec.model_path = test::write_tiny_model(test::scratch_folder(), tiny).string();
    spec.transport.hub = std::make_shared<collective::LoopbackHub>();
    spec.threads = 1;
    spec.pin = false;
    spec.spin_us = 0;
    for (std::uint16_t rank = 0; rank < shape.ranks(); ++rank) {
      spec.place = {shape, rank};
      if (change) change(spec);
      ranks_.push_back(exec::make_shard_engine(rank == 1 ? of_rank_1 : exec::Faults{}));
      facts_.push_back(ranks_.back()->load(spec, {}).value());
    }
  }
  /// Calls body(rank, engine) on a thread for each.
  template <class Body>
  void on_each(Body body) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) threads.emplace_back([&, rank] { body(rank, *ranks_[rank]); });
  }
  std::vector<std::optional<Result<exec::EpochFacts>>> enter(std::uint32_t epoch, const std::string& codec = "auto",
                                                             const std::string& token_of_rank_1 = "token") {
    exec::EpochEntry entry{{epoch}, "token", {}, codec};
    for (auto& rank : ranks_) entry.addresses.push_back(rank->data_address());
    abort_ = false;
    std::vector<std::optional<Result<exec::EpochFacts>>> entered(ranks_.size());
    on_each([&](std::size_t rank, exec::ShardEngine& engine) {
      exec::EpochEntry mine = entry;
      if (rank == 1) mine.token = token_of_rank_1;
      entered[rank] = engine.enter_epoch(mine, abort_);
      if (!entered[rank]->ok()) abort_ = true;  // as the supervisor would end the epoch
    });
    return entered;
  }
  void leave() {
    abort_ = true;
    on_each([](std::size_t, exec::ShardEngine& engine) { engine.leave_epoch(); });
  }
  /// Of the sampling rank. What another rank throws aborts all.
  plan::ForwardResult run(const plan::ForwardPlan& plan) {
    plan::ForwardResult result;
    aborted_ = 0;
    failure_.clear();
    on_each([&](std::size_t rank, exec::ShardEngine& engine) {
      try {
        auto got = engine.run(plan, abort_);
        if (base::ShardPlace{facts_shape(), static_cast<std::uint16_t>(rank)}.samples()) result = std::move(got);
      } catch (const exec::StepAborted&) {
        ++aborted_;
      } catch (const std::exception& failed) {
        failure_ = failed.what();
        abort_ = true;
      }
    });
    return result;
  }
  base::ParallelShape facts_shape() const { return {static_cast<std::uint16_t>(ranks_.size()), 1}; }
  const std::vector<exec::ShardFacts>& facts() const { return facts_; }
  exec::ShardEngine& rank(std::size_t index) { return *ranks_.at(index); }
  int aborted() const { return aborted_; }
  const std::string& failure() const { return failure_; }
  std::atomic<bool>& abort() { return abort_; }

 private:
  std::vector<std::unique_ptr<exec::ShardEngine>> ranks_;
  std::vector<exec::ShardFacts> facts_;
  std::atomic<bool> abort_{false};
  std::atomic<int> aborted_{0};
  std::string failure_;
};

plan::ForwardPlan first_plan(std::uint32_t epoch, std::uint32_t cut = 0) {
  plan::ForwardPlan plan;
  plan.epoch = {epoch};
  plan.step = {1};
  plan::AddedSequence added;
  added.blocks = {0, 1};
  added.sampling.temperature = 0.0F;
  plan.added = {added};
  plan.runs = {{{0}, 0, 40, 0}};
  for (TokenId token = 0; token < 40; ++token) plan.tokens.push_back(20 + token * 3);
  plan.samples = {{39, {0}, plan::kDraw, 0, 0}};
  if (cut > 0) plan.cuts = {cut};
  return plan;
}

// UCX is not instrumented for ThreadSanitizer.
#ifdef __SANITIZE_THREAD__
const std::vector<std::string> kTransports{"loopback"};
#else
const std::vector<std::string> kTransports{"loopback", "ucx"};
#endif

bool all_ok(const std::vector<std::optional<Result<exec::EpochFacts>>>& entered) {
  return std::all_of(entered.begin(), entered.end(), [](const auto& facts) { return facts->ok(); });
}

}  // namespace

TEST_CASE("Ranks meet, agree, run, leave and meet again", "[rank_group]") {
  const std::string transport = GENERATE(from_range(kTransports));
  CAPTURE(transport);
  Engines engines({2, 1}, [&](exec::ShardSpec& spec) { spec.transport.name = transport; });
  CHECK(engines.facts()[0].device_blocks == engines.facts()[1].device_blocks);
  const auto first = engines.enter(1);
  REQUIRE(all_ok(first));
  const exec::EpochFacts facts = **first[0];
  CHECK((facts.codec == "bf16" || facts.codec == "int8"));
  CHECK((**first[1]).codec == facts.codec);
  CHECK((**first[1]).numerics == facts.numerics);
  CHECK(facts.numerics != engines.facts()[0].numerics);
  CHECK(facts.speed.compute_ns > 0);
  CHECK(facts.speed.reduce_us > 0);
  CHECK(facts.speed.reduces == 4);
  CHECK(facts.speed.row_hidden == 64);
  CHECK((**first[1]).speed.compute_ns == facts.speed.compute_ns);  // of the slowest, for all
  const auto wanted = engines.run(first_plan(1));
  REQUIRE(wanted.tokens.size() == 1);
  CHECK(wanted.wire_us <= wanted.compute_us);
  CHECK(wanted.wait_us <= wanted.compute_us);
  CHECK(wanted.reduce_wait_us > 0);
  CHECK(wanted.reduce_wait_us <= wanted.wait_us);
  for (std::uint32_t epoch = 2; epoch < 5; ++epoch) {
    engines.leave();
    CHECK(engines.rank(0).data_address() != engines.rank(1).data_address());
    const auto again = engines.enter(epoch, facts.codec);
    REQUIRE(all_ok(again));
    CHECK((**again[1]).numerics == facts.numerics);
    const auto got = engines.run(first_plan(epoch, 7 * epoch));
    CHECK(got.tokens == wanted.tokens);
    CHECK(got.logprobs == wanted.logprobs);
  }
}

TEST_CASE("A rank with another token, a codec that is not there: an Error, and the next epoch works", "[rank_group]") {
  Engines engines({2, 1});
  CHECK_FALSE(all_ok(engines.enter(1, "bf16", "another token")));
  engines.leave();
  for (const auto& entered : engines.enter(2, "int9")) {
    REQUIRE_FALSE(entered->ok());
    CHECK(entered->error().client_text.find("int9") != std::string::npos);
  }
  engines.leave();
  REQUIRE(all_ok(engines.enter(3, "fp32")));
  CHECK(engines.run(first_plan(3)).tokens.size() == 1);
}

TEST_CASE("Who waits for a rank that never comes gives up when it is told to", "[rank_group]") {
  Engines engines({2, 1});
  const exec::EpochEntry entry{{1}, "token", {engines.rank(0).data_address(), engines.rank(1).data_address()}, "bf16"};
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    engines.abort() = true;
  });
  CHECK_FALSE(engines.rank(0).enter_epoch(entry, engines.abort()).ok());
}

TEST_CASE("A rank that fails in mid-step: the others leave when they are told to, and the next epoch works", "[rank_group]") {
  bool fail = true;
  exec::Faults faults;
  faults.step = [&fail](std::uint64_t, std::size_t segment, const std::atomic<bool>&) {
    if (fail && segment == 2) throw std::runtime_error("a planted fault");
  };
  Engines engines(
      {3, 1},
      [](exec::ShardSpec& spec) {
        test::TinyModelOptions tiny;
        tiny.head_dim = 32;
        tiny.q_heads = 3;
        tiny.kv_heads = 3;
        tiny.file_name = "three.gguf";
        spec.model_path = test::write_tiny_model(test::scratch_folder(), tiny).string();
      },
      faults);
  REQUIRE(all_ok(engines.enter(1, "int8")));
  engines.run(first_plan(1, 13));
  CHECK(engines.aborted() == 2);
  CHECK(engines.failure() == "a planted fault");
  engines.leave();
  fail = false;
  REQUIRE(all_ok(engines.enter(2, "int8")));
  CHECK(engines.run(first_plan(2, 13)).tokens.size() == 1);
}

TEST_CASE("Ranks keep K and V in files of their own", "[rank_group]") {
  const auto folder = test::scratch_folder() / "rank_group_cache";
  std::filesystem::remove_all(folder);
  Engines engines({2, 1}, [&](exec::ShardSpec& spec) {
    spec.cache_folder = folder.string();
    spec.disk_bytes = 8 << 20;
  });
  CHECK(engines.facts()[1].disk_blocks > 0);
  CHECK(engines.rank(0).stores() == nullptr);
  REQUIRE(all_ok(engines.enter(1, "int8")));
  for (const std::size_t rank : {0, 1}) {
    REQUIRE(engines.rank(rank).stores() != nullptr);
    CHECK(engines.rank(rank).stores()->disk_blocks() == engines.facts()[rank].disk_blocks);
  }
}

TEST_CASE("A step's trace is one list of events that a browser can show", "[rank_group]") {
  const std::string path = (test::scratch_folder() / "trace").string();
  {
    Engines engines({2, 1}, [&](exec::ShardSpec& spec) { spec.trace_file = path; });
    REQUIRE(all_ok(engines.enter(1, "int8")));
    engines.run(first_plan(1, 16));
    engines.leave();
    for (std::uint16_t rank = 0; rank < 2; ++rank) {
      std::ifstream file(exec::StepTrace::file_of(path, rank));
      const auto events = nlohmann::json::parse(file);
      std::vector<std::string> computed, reduced;
      for (const auto& event : events) {
        CHECK(event.at("pid") == rank);
        if (event.at("ph") != "X") continue;
        CHECK(event.at("dur").get<double>() >= 0);
        (event.at("cat") == "wire" ? reduced : computed).push_back(event.at("name").get<std::string>());
      }
      const std::vector<std::string> segments{"embed",   "attention A 0", "embed",         "attention B 0", "mlp A 0",
                                              "mlp B 0", "attention A 1", "attention B 1", "mlp B 1",       "sample"};
      CHECK(computed == segments);
      // A has no wanted row, so behind the last attention only B goes on.
      CHECK(reduced ==
            std::vector<std::string>{"attention A 0", "attention B 0", "mlp A 0", "mlp B 0", "attention A 1", "attention B 1", "mlp B 1"});
    }
  }
}

TEST_CASE("int8 only where it pays", "[rank_group]") {
  using kernels::WireFormat;
  struct Case {
    const char* link;
    exec::CodecCost bf16, int8;
    WireFormat wanted;
  };
  // Two cores of 150 to 350 GOPS; ns a row.
  constexpr Case kCases[] = {
      {"shared memory", {700'000, 20'000}, {690'000, 10'000}, WireFormat::kBf16},
      {"10 Gbit/s", {700'000, 55'000}, {710'000, 28'000}, WireFormat::kBf16},
      {"1 Gbit/s, hidden behind the computation", {700'000, 552'000}, {710'000, 280'000}, WireFormat::kBf16},
      {"300 Mbit/s", {700'000, 1'840'000}, {710'000, 950'000}, WireFormat::kInt8Group128},
      {"a little more than the computation", {700'000, 720'000}, {690'000, 370'000}, WireFormat::kBf16},
      {"codes as slow as the link", {100'000, 200'000}, {195'000, 100'000}, WireFormat::kBf16},
      {"one rank", {700'000, 0}, {700'000, 0}, WireFormat::kBf16},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.link);
    CHECK(exec::choose_codec(c.bf16, c.int8) == c.wanted);
  }
}
